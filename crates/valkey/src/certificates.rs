//! Who is let in where more reach than may: whoever has a certificate of this file system's own
//! authority.
//!
//! The authority lives as long as the file system and signs for its nodes and its clients alone.
//! Everything follows from one seed, so nothing is drawn here. A node's certificate bears its id, so
//! that no node passes for another one.

use std::fmt;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PKCS_ED25519, PublicKeyData, SignatureAlgorithm,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{CipherSuite, ClientConfig, ClientConnection, RootCertStore};
use sha2::{Digest as _, Sha256};
use tidefs_model::NodeId;

use crate::endpoint::Secret;
use crate::fault::Fault;

/// A private key of Ed25519 in PKCS #8, up to the key itself (RFC 8410).
const KEY_PREFIX: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
pub const PUBLIC_KEY_BYTES: usize = 32;

/// How nodes are reached over a network, and how they reach each other.
#[derive(Clone, Debug)]
pub enum Network {
    /// Whoever reaches a port may speak, and reads what others say.
    Trusted,
    /// Nobody is heard without a certificate of this authority, and nobody else can read along.
    Guarded(Authority),
}

impl Network {
    pub fn of_node(&self, id: NodeId) -> Option<Credentials> {
        match self {
            Network::Trusted => None,
            Network::Guarded(authority) => Some(authority.node(id)),
        }
    }

    pub fn of_client(&self) -> Option<Credentials> {
        match self {
            Network::Trusted => None,
            Network::Guarded(authority) => Some(authority.client()),
        }
    }
}

/// Signs for one file system. Cheap to clone.
#[derive(Clone)]
pub struct Authority(Arc<Signer>);

struct Signer {
    seed: [u8; 32],
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// What one side shows, and what it knows the other one by; the texts are in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub authority: String,
    pub certificate: String,
    pub key: Secret,
}

impl Authority {
    /// From random bytes that are used for nothing else.
    pub fn from_seed(seed: &[u8; 32]) -> Authority {
        let mut about = about("authority.tidefs");
        about.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        about.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(about, key(seed, "authority"));
        let issuer = issuer.expect("a certificate of constants");
        Authority(Arc::new(Signer { seed: *seed, issuer }))
    }

    pub fn node(&self, id: NodeId) -> Credentials {
        let key = key(&self.0.seed, &id.to_string());
        let certificate = self.sign(about_node(id), &key);
        self.credentials(certificate, &key)
    }

    /// Of mounts, checks and whoever changes the cluster: it passes for no node.
    pub fn client(&self) -> Credentials {
        let key = key(&self.0.seed, "client");
        let mut about = about("client.tidefs");
        about.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = self.sign(about, &key);
        self.credentials(certificate, &key)
    }

    /// Of who is called by this name.
    pub(crate) fn server(&self, name: &str) -> Credentials {
        let key = key(&self.0.seed, name);
        let mut about = about(name);
        about.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = self.sign(about, &key);
        self.credentials(certificate, &key)
    }

    /// The certificate of a node whose key somebody else keeps.
    pub fn certify(&self, id: NodeId, public_key: [u8; PUBLIC_KEY_BYTES]) -> String {
        self.sign(about_node(id), &PublicKey(public_key))
    }

    pub fn certificate(&self) -> String {
        self.0.issuer.pem()
    }

    fn sign(&self, about: CertificateParams, key: &impl PublicKeyData) -> String {
        about.signed_by(key, &self.0.issuer).expect("a certificate of constants").pem()
    }

    fn credentials(&self, certificate: String, key: &KeyPair) -> Credentials {
        let key = Secret::from_text(&key.serialize_pem());
        Credentials { authority: self.certificate(), certificate, key }
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority(..)")
    }
}

/// How clients reach nodes over a network: with this certificate, and no node without one of its own.
/// Cheap to clone.
#[derive(Clone)]
pub struct ClientTls(Result<Arc<ClientConfig>, Box<str>>);

impl ClientTls {
    /// What is wrong with the credentials is told by whoever uses them.
    pub fn new(credentials: &Credentials) -> ClientTls {
        ClientTls(
            client_config(credentials).map(Arc::new).map_err(|error| error.to_string().into()),
        )
    }

    /// A session with the node of this id, and no other.
    pub fn session(&self, id: NodeId) -> Result<ClientConnection, Fault> {
        let config = self.0.clone().map_err(Fault::Untrusted)?;
        let wrong = |error: &dyn fmt::Display| Fault::Untrusted(error.to_string().into());
        let name = ServerName::try_from(name_of(id)).map_err(|error| wrong(&error))?;
        ClientConnection::new(config, name).map_err(|error| wrong(&error))
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTls(..)")
    }
}

/// Credentials as TLS takes them.
pub(crate) struct Parsed {
    pub roots: RootCertStore,
    pub certificate: CertificateDer<'static>,
    pub key: PrivateKeyDer<'static>,
}

impl Parsed {
    pub fn of(credentials: &Credentials) -> Result<Parsed, Box<dyn std::error::Error>> {
        let Credentials { authority, certificate, key } = credentials;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(key.reveal().as_bytes())?;
        Ok(Parsed { roots, certificate, key })
    }
}

pub(crate) fn client_config(
    credentials: &Credentials,
) -> Result<ClientConfig, Box<dyn std::error::Error>> {
    let Parsed { roots, certificate, key } = Parsed::of(credentials)?;
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)?;
    Ok(config)
}

/// What encrypts a connection. Servers take what the caller names first: AES with keys of 128 bits, which is a
/// quarter less work for each block than 256 and nothing that anybody breaks.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.sort_by_key(|it| it.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

/// The name by which a node's certificate calls it.
pub fn name_of(id: NodeId) -> String {
    format!("{id}.node.tidefs")
}

fn about_node(id: NodeId) -> CertificateParams {
    let mut about = about(&name_of(id));
    let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    about.extended_key_usages = both.into();
    about
}

/// Valid whatever the clocks of hosts say: an authority ends with its file system.
fn about(name: &str) -> CertificateParams {
    let mut about = CertificateParams::new([name.to_owned()]).expect("a name of a host");
    about.distinguished_name = rcgen::DistinguishedName::new();
    about.distinguished_name.push(DnType::CommonName, name.split('.').next().unwrap_or(name));
    about
}

fn key(seed: &[u8; 32], of: &str) -> KeyPair {
    let hash = Sha256::new().chain_update(b"key of ").chain_update(of).chain_update(seed);
    key_of(&hash.finalize().into())
}

fn key_of(private: &[u8; 32]) -> KeyPair {
    let pkcs8 = PrivatePkcs8KeyDer::from([&KEY_PREFIX[..], private].concat());
    let key = KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &PKCS_ED25519);
    key.expect("any 32 bytes are a key")
}

struct PublicKey([u8; PUBLIC_KEY_BYTES]);

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

/// The key of a node whose certificate somebody else signs.
pub struct NodeKey(KeyPair);

impl NodeKey {
    /// From random bytes that are used for nothing else.
    pub fn from_seed(seed: &[u8; 32]) -> NodeKey {
        NodeKey(key_of(seed))
    }

    pub fn public(&self) -> [u8; PUBLIC_KEY_BYTES] {
        self.0.der_bytes().try_into().expect("a public key of Ed25519")
    }

    pub fn with(&self, authority: String, certificate: String) -> Credentials {
        Credentials { authority, certificate, key: Secret::from_text(&self.0.serialize_pem()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_follows_from_the_seed_and_the_name() {
        let (one, again) = (Authority::from_seed(&[1; 32]), Authority::from_seed(&[1; 32]));
        let other = Authority::from_seed(&[2; 32]);
        let (node, second) = (NodeId([7; 20]), NodeId([8; 20]));
        assert_eq!(one.node(node), again.node(node));
        assert_ne!(one.node(node).key, one.node(second).key);
        assert_ne!(one.node(node).key, other.node(node).key);
        assert_ne!(one.client().key, other.client().key);
        assert_ne!(one.certificate(), other.certificate());
        assert!(ClientTls::new(&one.client()).session(node).is_ok());
        let broken = Credentials { authority: String::new(), ..one.client() };
        assert!(ClientTls::new(&broken).session(node).is_err());
        assert!(!format!("{:?} {:?}", one, one.node(node)).contains("PRIVATE"));
    }

    #[test]
    fn a_key_that_stays_where_it_was_made_is_certified() {
        let authority = Authority::from_seed(&[1; 32]);
        let key = NodeKey::from_seed(&[3; 32]);
        let certificate = authority.certify(NodeId([7; 20]), key.public());
        let credentials = key.with(authority.certificate(), certificate);
        assert!(credentials.key.reveal().contains("PRIVATE KEY"));
        assert!(credentials.certificate.contains("BEGIN CERTIFICATE"));
    }
}

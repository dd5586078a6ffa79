//! A connection between two hosts that share a secret: TLS 1.3, on which each side has proved that it knows
//! the secret before the other one has said anything.
//!
//! The secret is the seed of an authority that certifies both ends, so nothing else has to be carried to a
//! host. What the secret is for is named in clear, since one listener may have several.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::server::{Acceptor, WebPkiClientVerifier};
use rustls::{AlertDescription, ClientConfig, ClientConnection, Connection, ServerConfig};
use sha2::{Digest as _, Sha256};

use crate::awake::{Awake, LOOK_EVERY};
use crate::certificates::{Authority, Parsed, client_config, provider};

/// Of what is said on these connections: both ends must speak the same.
const PROTOCOL: &[u8] = b"tidefs-hosts/3";

#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the two sides do not have the same secret")]
    WrongSecret,
    #[error("the other side speaks another version; have the same version of tidefs on all hosts")]
    OtherVersion,
    #[error("what answers there is no file system that hosts can join: {0}")]
    Stranger(Box<str>),
}

/// The secrets of a listener, each with what it is for. Cheap to clone.
#[derive(Clone)]
pub struct PeerSecrets(Arc<[(&'static str, Arc<ServerConfig>)]>);

impl PeerSecrets {
    /// Each is named as a host is, such as `join.tidefs`.
    pub fn new(secrets: &[(&'static str, [u8; 32])]) -> PeerSecrets {
        let known = secrets.iter().map(|(purpose, secret)| {
            let config = server_config(purpose, secret);
            (*purpose, Arc::new(config.expect("certificates of constants")))
        });
        PeerSecrets(known.collect())
    }
}

/// Reads and writes take as long as the socket's time-outs say.
pub struct PeerStream {
    socket: TcpStream,
    tls: Connection,
}

impl PeerStream {
    /// As who calls; what answers must know the secret for `purpose`.
    pub fn connect(
        mut socket: TcpStream,
        purpose: &'static str,
        secret: &[u8; 32],
        until: Awake,
    ) -> Result<PeerStream, PeerError> {
        let mut config =
            client_config(&authority(purpose, secret).client()).expect("certificates of constants");
        prepare(&mut config);
        let name = ServerName::try_from(purpose).expect("the name of a host");
        let tls = ClientConnection::new(Arc::new(config), name).map_err(fault)?;
        let mut tls = Connection::from(tls);
        shake_hands(&mut socket, &mut tls, until)?;
        if tls.alpn_protocol() != Some(PROTOCOL) {
            return Err(PeerError::OtherVersion);
        }
        Ok(PeerStream { socket, tls })
    }

    /// As who was called, and with what purpose.
    pub fn accept(
        mut socket: TcpStream,
        secrets: &PeerSecrets,
        until: Awake,
    ) -> Result<(PeerStream, &'static str), PeerError> {
        let mut acceptor = Acceptor::default();
        let accepted = loop {
            fetch(&mut socket, until, |socket| acceptor.read_tls(socket))?;
            match acceptor.accept() {
                Ok(Some(accepted)) => break accepted,
                Ok(None) => {}
                Err((error, mut alert)) => {
                    // Whoever says nonsense need not be told.
                    let _ = alert.write_all(&mut socket);
                    return Err(fault(error));
                }
            }
        };
        let hello = accepted.client_hello();
        let asked = hello.server_name().unwrap_or_default().to_owned();
        let found = secrets.0.iter().find(|(purpose, _)| *purpose == asked);
        let unknown = || PeerError::Stranger(format!("nobody is called {asked:?} here").into());
        let (purpose, config) = found.ok_or_else(unknown)?;
        let tls = accepted.into_connection(Arc::clone(config)).map_err(|(error, mut alert)| {
            let _ = alert.write_all(&mut socket);
            fault(error)
        })?;
        let mut tls = Connection::from(tls);
        shake_hands(&mut socket, &mut tls, until)?;
        Ok((PeerStream { socket, tls }, purpose))
    }

    /// Bytes that both ends of this connection have and nobody else, different for each `label`.
    pub fn key(&self, label: &[u8]) -> [u8; 32] {
        let key = self.tls.export_keying_material([0; 32], label, None);
        key.expect("the handshake is over")
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

impl Read for PeerStream {
    /// Nothing where the other side has hung up, or its process has ended.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if self.tls.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            let processed = self.tls.process_new_packets();
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            self.flush()?;
        }
    }
}

impl Write for PeerStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.tls.writer().write(bytes)?;
        self.flush()?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

fn authority(purpose: &str, secret: &[u8; 32]) -> Authority {
    let seed = Sha256::new().chain_update(b"hosts of ").chain_update(purpose).chain_update(secret);
    Authority::from_seed(&seed.finalize().into())
}

fn prepare(config: &mut ClientConfig) {
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
}

fn server_config(
    purpose: &str,
    secret: &[u8; 32],
) -> Result<ServerConfig, Box<dyn std::error::Error>> {
    let credentials = authority(purpose, secret).server(purpose);
    let Parsed { roots, certificate, key } = Parsed::of(&credentials)?;
    let provider = provider();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier.build()?)
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn shake_hands(
    socket: &mut TcpStream,
    tls: &mut Connection,
    until: Awake,
) -> Result<(), PeerError> {
    while tls.is_handshaking() || tls.wants_write() {
        if tls.wants_write() {
            tls.write_tls(socket)?;
            continue;
        }
        fetch(socket, until, |socket| tls.read_tls(socket))?;
        if let Err(error) = tls.process_new_packets() {
            // The other side is told why, where it is there still.
            let _ = tls.write_tls(socket);
            return Err(fault(error));
        }
    }
    Ok(())
}

/// Something of what the other side sends; whoever sends a byte now and then has no more time than others.
fn fetch(
    socket: &mut TcpStream,
    until: Awake,
    mut read: impl FnMut(&mut TcpStream) -> io::Result<usize>,
) -> Result<(), PeerError> {
    use io::ErrorKind::{Interrupted, TimedOut, UnexpectedEof, WouldBlock};
    loop {
        let now = Awake::now();
        if now >= until {
            return Err(io::Error::from(TimedOut).into());
        }
        let wait = now.until(until).clamp(Duration::from_millis(1), LOOK_EVERY);
        socket.set_read_timeout(Some(wait))?;
        match read(socket) {
            Ok(0) => return Err(io::Error::from(UnexpectedEof).into()),
            Ok(_) => return Ok(()),
            Err(error) if matches!(error.kind(), Interrupted | TimedOut | WouldBlock) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn fault(error: rustls::Error) -> PeerError {
    use AlertDescription as Alert;
    use rustls::Error::{AlertReceived, InvalidCertificate, NoApplicationProtocol};
    match error {
        InvalidCertificate(_)
        | AlertReceived(
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::CertificateUnknown
            | Alert::DecryptError
            | Alert::AccessDenied,
        ) => PeerError::WrongSecret,
        NoApplicationProtocol | AlertReceived(Alert::NoApplicationProtocol) => {
            PeerError::OtherVersion
        }
        error => PeerError::Stranger(error.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use rustls::CipherSuite;

    use super::*;

    const WAIT: Duration = Duration::from_secs(10);

    fn soon() -> Awake {
        Awake::now() + WAIT
    }

    type Accepted = Result<(PeerStream, &'static str), PeerError>;

    /// Who listens with two secrets, and who calls with one; what each of them gets.
    fn pair(purpose: &'static str, secret: u8) -> (Result<PeerStream, PeerError>, Accepted) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let secrets = PeerSecrets::new(&[("lend.tidefs", [1; 32]), ("join.tidefs", [2; 32])]);
        let other = thread::spawn(move || {
            PeerStream::accept(listener.accept().unwrap().0, &secrets, soon())
        });
        let socket = TcpStream::connect(address).unwrap();
        let one = PeerStream::connect(socket, purpose, &[secret; 32], soon());
        // Whoever is refused hangs up, and the other side does not wait for more.
        (one, other.join().unwrap())
    }

    #[test]
    fn who_knows_the_secret_is_heard_by_its_purpose() {
        for (asked, secret) in [("lend.tidefs", 1), ("join.tidefs", 2)] {
            let (one, other) = pair(asked, secret);
            let (mut one, (mut other, purpose)) = (one.unwrap(), other.unwrap());
            assert_eq!(purpose, asked);
            assert_eq!(one.key(b"x"), other.key(b"x"));
            assert_ne!(one.key(b"x"), one.key(b"y"));
            let suite = one.tls.negotiated_cipher_suite().map(|it| it.suite());
            assert_eq!(suite, Some(CipherSuite::TLS13_AES_128_GCM_SHA256));
            // More than one record, and more than is encrypted ahead.
            let long = vec![7; 300_000];
            let mut heard = vec![0; long.len()];
            thread::scope(|scope| {
                scope.spawn(|| one.write_all(&long).unwrap());
                other.read_exact(&mut heard).unwrap();
            });
            assert!(heard == long);
            drop(one);
            assert_eq!(other.read(&mut heard).unwrap(), 0, "it has gone");
        }
    }

    #[test]
    fn another_secret_is_refused_on_both_sides() {
        for (purpose, secret) in [("lend.tidefs", 2), ("join.tidefs", 1), ("join.tidefs", 3)] {
            let (one, other) = pair(purpose, secret);
            assert!(matches!(one, Err(PeerError::WrongSecret)), "{purpose} {secret}");
            assert!(matches!(other, Err(PeerError::WrongSecret)), "{purpose} {secret}");
        }
        assert!(matches!(pair("root.tidefs", 1).1, Err(PeerError::Stranger(_))));
    }

    /// Nobody passes for a host who has a certificate of the right name, and another authority's.
    #[test]
    fn a_caller_without_the_secret_is_not_heard() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let secrets = PeerSecrets::new(&[("join.tidefs", [2; 32])]);
        let refused = thread::spawn(move || {
            PeerStream::accept(listener.accept().unwrap().0, &secrets, soon()).err()
        });
        // He believes whoever answers, but has no certificate of its authority.
        let trusting = authority("join.tidefs", &[2; 32]).certificate();
        let his = authority("join.tidefs", &[3; 32]).client();
        let his = crate::certificates::Credentials { authority: trusting, ..his };
        let mut config = client_config(&his).unwrap();
        prepare(&mut config);
        let name = ServerName::try_from("join.tidefs").unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        shake_hands(&mut socket, &mut Connection::from(tls), soon()).unwrap();
        assert!(matches!(refused.join().unwrap(), Some(PeerError::WrongSecret)));
    }

    #[test]
    fn who_speaks_another_version_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let secrets = PeerSecrets::new(&[("join.tidefs", [2; 32])]);
        let refused = thread::spawn(move || {
            PeerStream::accept(listener.accept().unwrap().0, &secrets, soon()).err()
        });
        let mut config = client_config(&authority("join.tidefs", &[2; 32]).client()).unwrap();
        config.alpn_protocols = vec![b"tidefs-hosts/1".to_vec()];
        let name = ServerName::try_from("join.tidefs").unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let told = shake_hands(&mut socket, &mut Connection::from(tls), soon());
        assert!(matches!(told, Err(PeerError::OtherVersion)), "{told:?}");
        assert!(matches!(refused.join().unwrap(), Some(PeerError::OtherVersion)));
    }

    /// Whoever says a byte now and then is not listened to for longer than others.
    #[test]
    fn a_handshake_has_one_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let secrets = PeerSecrets::new(&[("join.tidefs", [2; 32])]);
        let until = Awake::now() + Duration::from_millis(300);
        let refused = thread::spawn(move || {
            PeerStream::accept(listener.accept().unwrap().0, &secrets, until).err()
        });
        // The beginning of a hello of which more and more comes.
        let hello = [22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3];
        for byte in hello.into_iter().chain([0; 189]) {
            if socket.write_all(&[byte]).is_err() || refused.is_finished() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let Some(PeerError::Io(error)) = refused.join().unwrap() else { panic!("not by time") };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}

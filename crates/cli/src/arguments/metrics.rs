//! Whether metrics are served, where, and to whom.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

/// Where nothing else is said. No other program that is known to be watched has this port.
const PORT: u16 = 7480;
const USUAL: &str = "127.0.0.1:7480";

#[derive(Clone, Debug, Default, Args)]
pub struct Metrics {
    /// Serve metrics for Prometheus at http://ADDRESS/metrics and a page for people at http://ADDRESS/, to whoever
    /// shows the token of either: an IP address, a port or both, where port 0 chooses one [without ADDRESS: 127.0.0.1:7480]
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        default_missing_value = USUAL,
        value_parser = address
    )]
    pub metrics: Option<SocketAddr>,

    /// The token that whoever asks for metrics shows, at least 16 characters; the page, which names files, has
    /// one of its own, in the file page-token of the state directory [default: one that is made, in the file
    /// metrics-token there]
    #[arg(long, value_name = "FILE")]
    pub metrics_token_file: Option<PathBuf>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let port = || text.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let ip = || text.parse().map(|ip: IpAddr| SocketAddr::from((ip, PORT)));
    text.parse().ok().or_else(|| ip().ok()).or_else(|| port().ok()).ok_or_else(|| {
        "give an IP address and a port, such as 127.0.0.1:7480 or [::1]:7480, or one of them"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_leave_out_half_of_it() {
        for (text, is) in [
            (USUAL, USUAL),
            ("127.0.0.1", USUAL),
            ("7480", USUAL),
            ("0", "127.0.0.1:0"),
            ("10.0.0.1", "10.0.0.1:7480"),
            ("::1", "[::1]:7480"),
            ("[::1]:9", "[::1]:9"),
        ] {
            assert_eq!(address(text).map(|it| it.to_string()).as_deref(), Ok(is), "{text}");
        }
        for text in ["", "here", "localhost:7480", "127.0.0.1:70000", "70000", ":7480", "-1"] {
            assert!(address(text).unwrap_err().contains("127.0.0.1:7480"), "{text}");
        }
    }
}

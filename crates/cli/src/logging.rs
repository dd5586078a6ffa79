//! The log: warnings on standard error, more when asked for.

use tracing_subscriber::EnvFilter;

/// `verbose` counts how often `-v` was given; `$TIDEFS_LOG` or `$RUST_LOG` override it.
pub fn begin(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "tidefs=info,warn",
        _ => "debug",
    };
    let filter = ["TIDEFS_LOG", "RUST_LOG"]
        .iter()
        .find_map(|name| EnvFilter::try_from_env(name).ok())
        .unwrap_or_else(|| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .init();
}

//! The log: warnings on standard error, more when asked for.

use tracing_subscriber::EnvFilter;

/// Each failed request is told to the program that made it; thousands of them may follow when a
/// node dies. The FUSE library answers the notice of an interrupted request also when that request
/// is done already, which the kernel ignores and the library calls an error.
const QUIET: &str = "warn,tidefs_fuse::adapter=error,fuser::reply=off";

/// `verbose` counts how often `-v` was given; `$TIDEFS_LOG` or `$RUST_LOG` override it.
pub fn begin(verbose: u8) {
    let level = match verbose {
        0 => QUIET,
        1 => "info",
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

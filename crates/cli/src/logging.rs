//! The log: warnings on standard error, more when asked for.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::log_file;
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

static VERBOSITY: AtomicU8 = AtomicU8::new(0);
static KEPT: AtomicBool = AtomicBool::new(false);

/// How often `-v` was given, for processes that this one starts.
pub fn verbosity() -> u8 {
    VERBOSITY.load(Ordering::Relaxed)
}

/// What this process says goes to a file that is kept.
pub fn is_kept() -> bool {
    KEPT.load(Ordering::Relaxed)
}

/// Each failed request is told to the program that made it; thousands of them may follow when a
/// node dies.
const QUIET: &str = "warn,tidefs_fuse::adapter=error";
/// A kept log also has what was decided about the nodes, and what came of it.
const QUIET_KEPT: &str = "warn,tidefs_manager=info,tidefs_fuse::adapter=error";

/// `verbose` counts how often `-v` was given; `$TIDEFS_LOG` or `$RUST_LOG` override it. `kept`: what
/// is said goes to a file, where the time matters.
pub fn begin(verbose: u8, kept: bool) {
    VERBOSITY.store(verbose, Ordering::Relaxed);
    KEPT.store(kept, Ordering::Relaxed);
    let level = match verbose {
        0 if kept => QUIET_KEPT,
        0 => QUIET,
        1 => "info",
        _ => "debug",
    };
    let filter = ["TIDEFS_LOG", "RUST_LOG"]
        .iter()
        .find_map(|name| EnvFilter::try_from_env(name).ok())
        .unwrap_or_else(|| EnvFilter::new(level));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| log_file::Writer)
        .with_ansi(false)
        .with_target(false);
    if kept || verbose > 0 { log.init() } else { log.event_format(Spoken).init() }
}

/// As everything else that people are told.
struct Spoken;

impl<S, N> FormatEvent<S, N> for Spoken
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = event.metadata().level().as_str().to_lowercase();
        write!(writer, "tidefs: {}: ", if level == "warn" { "warning" } else { &level })?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

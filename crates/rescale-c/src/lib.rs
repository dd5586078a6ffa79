//! The C interface of `tidefs-rescale`, as `include/tidefs_rescale.h` states it.
//!
//! Nothing is decided here: arguments are checked and copied, callbacks are called, and no panic leaves.

mod callbacks;
mod handles;
mod layout;
mod run;
mod words;

pub use handles::*;
pub use layout::*;
pub use run::*;
pub use words::*;

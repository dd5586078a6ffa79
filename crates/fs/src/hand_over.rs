//! Handing a mount over to another process, which goes on with it: what one mount knows and the store does
//! not, as bytes, and a mount made of these.
//!
//! The process that gives first does what it would do if another mount came: the kernel looks at names and
//! attributes again, and the store has all bytes, names and locks ([`Fs::prepare_hand_over`], while requests
//! are still served). Then, with nothing under way, the rest is collected ([`Fs::hand_over`]), and
//! [`Fs::take_over`] makes a mount of the same name of it. Both have the same locks, open files and account then;
//! only one may go on: the other one has ended, or has called it off ([`Fs::keep`]).
//!
//! It knows no process, no descriptor and no kernel. Errors that programs have yet to hear of are not handed
//! over: whoever has any is not given away.

mod bytes;
mod giving;
mod state;
mod taking;

use crate::error::Error;

pub use state::VERSION;

/// Why a mount is not handed over. The one that was to give it goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandOverError {
    #[error("a program has yet to hear that something it wrote or made was lost")]
    Untold,
    #[error("what was written cannot be stored: {0}")]
    Unstored(Error),
    #[error("a node that did not answer may still carry out a write")]
    GivenUp,
    #[error("removed files are still being freed")]
    Freeing,
    #[error("this mount was expelled, and others have yet to take note that it is back")]
    Returning,
    #[error("the kernel serves open files of this mount by itself")]
    Pinned,
    #[error(
        "what is handed over is of version {found}, and this program understands version {VERSION}"
    )]
    Version { found: u32 },
    #[error("what is handed over is damaged at byte {at}")]
    Damaged { at: usize },
    #[error("file {ino}, which is open, is not in the store any more")]
    Gone { ino: u64 },
    #[error(transparent)]
    Failed(#[from] Error),
}

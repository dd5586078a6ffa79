//! Nodes that other machines lend: what both sides say to each other, and the borrower's side of it.
//! The lender's side is in `lend`.

mod channel;
mod offers;
mod service;
mod words;

pub use channel::{Channel, ChannelError, ChannelKey};
pub use offers::Offers;
pub use service::{Service, listen};
pub use words::{ANSWER_WAIT, Certificate, FromBorrower, State, ToBorrower, digits_of, secret_of};

//! A store with sealed stripes, judged from outside: it keeps every promise of a store, and no byte
//! that was not written last is ever taken for one.

mod concurrent;
mod hostile;
mod late;
mod left_behind;
mod losses;
mod promises;
mod rounds;
mod silence;
mod support;

//! The file system compared with a plain model of one, operation by operation; and what is left
//! when any one operation of its store fails.

mod checked;
mod driver;
mod faults;
mod kernel;
mod line;
#[path = "../../../oracle/tests/drivers/nodes.rs"]
mod nodes;
mod on_nodes;
mod random;
mod regression;
mod words;
mod world;

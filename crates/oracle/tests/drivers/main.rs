//! The model and the driver that makes system calls: first on a file system of the kernel, which
//! shows that both are right; then on mounts of this one, over every store.

mod kernel;
mod mounted;
mod mounts;
mod nodes;
mod stores;

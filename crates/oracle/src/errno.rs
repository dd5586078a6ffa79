//! Why an operation failed, as a program sees it: the facts that drivers and model agree on.

/// An error number by its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    NotFound,
    Exists,
    NotADirectory,
    IsADirectory,
    NotEmpty,
    Invalid,
    NotPermitted,
    BadHandle,
    NoAttribute,
    NoSuchOffset,
    /// A symbolic link stands where none is followed.
    SymbolicLink,
    NameTooLong,
    FileTooLarge,
    TooManyLinks,
    NoSpace,
    NotSupported,
    Stale,
    Io,
    /// One that the model never answers with.
    Other(i32),
}

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Errno {
        use rustix::io::Errno as E;
        match errno {
            E::NOENT => Errno::NotFound,
            E::EXIST => Errno::Exists,
            E::NOTDIR => Errno::NotADirectory,
            E::ISDIR => Errno::IsADirectory,
            E::NOTEMPTY => Errno::NotEmpty,
            E::INVAL => Errno::Invalid,
            E::PERM => Errno::NotPermitted,
            E::BADF => Errno::BadHandle,
            E::NODATA => Errno::NoAttribute,
            E::NXIO => Errno::NoSuchOffset,
            E::LOOP => Errno::SymbolicLink,
            E::NAMETOOLONG => Errno::NameTooLong,
            E::FBIG => Errno::FileTooLarge,
            E::MLINK => Errno::TooManyLinks,
            E::NOSPC => Errno::NoSpace,
            E::OPNOTSUPP => Errno::NotSupported,
            E::STALE => Errno::Stale,
            E::IO => Errno::Io,
            other => Errno::Other(other.raw_os_error()),
        }
    }
}

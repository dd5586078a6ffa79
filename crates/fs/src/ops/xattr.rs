//! Extended attributes: one record an inode, beside it in its home shard. A directory's placement is
//! in its own record instead; see [`layout`](crate::layout).

use tidefs_model::Ino;
use tidefs_store::{Batch, Bytes, Store};

use crate::attributes::Attributes;
use crate::error::Error;
use crate::fs::Fs;
use crate::layout::PLACEMENT;
use crate::names::ATTEMPTS;
use crate::ops::XattrMode;
use crate::table::Node;
use crate::whereabouts::WHERE;
use crate::{XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX, inode, keys};

/// Name spaces of attributes that are kept for whoever sets them; the kernel checks who may. Those of
/// the system would have to be obeyed, not only kept: access control lists above all.
const NAMESPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

/// What programs may do that are run from a file, besides what their users may.
const CAPABILITIES: &[u8] = b"security.capability";

impl<S: Store> Fs<S> {
    pub fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, Error> {
        if name == WHERE {
            return self.whereabouts(ino);
        }
        check_name(name)?;
        if name == PLACEMENT {
            return self.placement(ino);
        }
        let node = self.table.get(ino)?;
        if node.is_bare(self.era(node.home)) {
            return Err(Error::NoAttribute);
        }
        let attributes = self.attributes(ino)?;
        attributes.get(name).map(<[u8]>::to_vec).ok_or(Error::NoAttribute)
    }

    /// The names, each followed by a zero byte.
    pub fn listxattr(&self, ino: Ino) -> Result<Vec<u8>, Error> {
        let attributes = self.attributes(ino)?;
        let placement = self.has_placement(ino)?.then_some(PLACEMENT);
        let mut list = Vec::new();
        for name in placement.into_iter().chain(attributes.names()) {
            list.extend(name);
            list.push(0);
        }
        Ok(list)
    }

    pub fn setxattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Error> {
        check_name(name)?;
        if value.len() > XATTR_VALUE_BYTES_MAX {
            return Err(Error::AttributesTooLarge);
        }
        if name == PLACEMENT {
            return self.set_placement(ino, value, mode);
        }
        self.change_attributes(ino, |attributes| {
            match (mode, attributes.get(name).is_some()) {
                (XattrMode::Create, true) => return Err(Error::Exists),
                (XattrMode::Replace, false) => return Err(Error::NoAttribute),
                _ => attributes.set(name, value),
            }
            Ok(())
        })
    }

    pub fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<(), Error> {
        check_name(name)?;
        if name == PLACEMENT {
            return self.remove_placement(ino);
        }
        self.change_attributes(ino, |attributes| {
            if attributes.remove(name) { Ok(()) } else { Err(Error::NoAttribute) }
        })
    }

    /// A change of its bytes or its owner ends what a file lends to those who run it, whoever makes it, as
    /// far as this mount has seen.
    pub(crate) fn end_capabilities(&self, node: &Node<S>) -> Result<(), Error> {
        if !node.inherited().capable {
            return Ok(());
        }
        match self.removexattr(node.ino, CAPABILITIES) {
            Err(Error::NoAttribute) => node.set_capable(false),
            removed => removed?,
        }
        Ok(())
    }

    fn attributes(&self, ino: Ino) -> Result<Attributes, Error> {
        let node = self.table.get(ino)?;
        // With the record, which is there: where a read finds nothing a server is asked twice.
        let batch = Batch::new().read(keys::xattrs(ino)).read(keys::inode(ino));
        Attributes::decode(ino, self.store.batch(node.home, &batch)?.take(0).as_deref())
    }

    fn change_attributes(
        &self,
        ino: Ino,
        change: impl Fn(&mut Attributes) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let node = self.table.get(ino)?;
        node.set_bare(None);
        let lends = |attributes: &Attributes| attributes.get(CAPABILITIES).is_some();
        let (field, record) = (keys::xattrs(ino), keys::inode(ino));
        for _ in 0..ATTEMPTS {
            let read = Batch::new().read(field.clone());
            let before = self.store.batch(node.home, &read)?.take(0);
            let mut attributes = Attributes::decode(ino, before.as_deref())?;
            let lent = lends(&attributes);
            change(&mut attributes)?;
            let length = before.as_ref().map_or(0, Bytes::len);
            let batch = expect(Batch::new().present(record.clone()), &field, before);
            let batch = match attributes.encode()? {
                // Whoever takes some away is not to wait for room.
                Some(after) if after.len() <= length => batch.put(field.clone(), after).reclaims(),
                Some(after) => batch.put(field.clone(), after),
                None => batch.delete(field.clone()).reclaims(),
            };
            let batch = match lends(&attributes) {
                is if is == lent => batch,
                is => batch.patch(record.clone(), inode::CAPABLE, [u8::from(is)]),
            };
            let batch = batch.max(record.clone(), inode::CTIME, self.now().0);
            let refused_by = self.store.batch(node.home, &batch)?.refused_by;
            self.forget_directory(ino);
            self.record_of_changed(ino);
            match refused_by {
                None => {
                    self.record_of_directory_changed(ino, &batch);
                    node.set_capable(lends(&attributes));
                    return Ok(());
                }
                Some(0) => return Err(Error::Stale),
                Some(_) => {}
            }
        }
        Err(Error::Contended)
    }
}

fn check_name(name: &[u8]) -> Result<(), Error> {
    if name.is_empty() || name.len() > XATTR_NAME_BYTES_MAX {
        return Err(Error::RangeTooSmall);
    }
    let rest = NAMESPACES.iter().find_map(|namespace| name.strip_prefix(*namespace));
    match rest {
        None => Err(Error::NotSupported),
        Some([]) => Err(Error::Invalid),
        Some(_) => Ok(()),
    }
}

fn expect(batch: Batch, field: &[u8], before: Option<Bytes>) -> Batch {
    match before {
        Some(value) => batch.equals(field, value),
        None => batch.absent(field),
    }
}

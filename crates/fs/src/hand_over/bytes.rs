//! Numbers and strings of bytes, one behind the other. Numbers have their highest byte first.

use tidefs_model::{Ino, ShardKey};

use super::HandOverError;
use crate::entry::Reference;
use crate::inode::{kind_byte, kind_of_byte};

#[derive(Debug, Default)]
pub(super) struct Out(pub Vec<u8>);

impl Out {
    pub fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    pub fn u32(&mut self, number: u32) {
        self.0.extend(number.to_be_bytes());
    }

    pub fn u64(&mut self, number: u64) {
        self.0.extend(number.to_be_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.0.extend(bytes);
    }

    pub fn shard(&mut self, shard: ShardKey) {
        self.u64(shard.directory.0);
        self.u32(shard.index.into());
    }

    pub fn reference(&mut self, reference: &Reference) {
        self.u8(kind_byte(reference.kind));
        self.u64(reference.ino.0);
        self.shard(reference.home);
    }

    pub fn some<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Out, T)) {
        self.u8(value.is_some().into());
        if let Some(value) = value {
            put(self, value);
        }
    }

    pub fn each<T>(&mut self, values: &[T], mut put: impl FnMut(&mut Out, &T)) {
        self.u64(values.len() as u64);
        values.iter().for_each(|value| put(self, value));
    }
}

#[derive(Debug)]
pub(super) struct In<'b> {
    all: &'b [u8],
    at: usize,
}

pub(super) type Read<T> = Result<T, HandOverError>;

impl<'b> In<'b> {
    pub fn new(all: &'b [u8]) -> In<'b> {
        In { all, at: 0 }
    }

    pub fn damaged(&self) -> HandOverError {
        HandOverError::Damaged { at: self.at }
    }

    fn take(&mut self, count: usize) -> Read<&'b [u8]> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.all.get(self.at..end)).ok_or_else(|| self.damaged())?;
        self.at += count;
        Ok(taken)
    }

    /// There must be nothing more.
    pub fn end(&self) -> Read<()> {
        if self.at == self.all.len() { Ok(()) } else { Err(self.damaged()) }
    }

    pub fn u8(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }

    pub fn flag(&mut self) -> Read<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.damaged()),
        }
    }

    pub fn u32(&mut self) -> Read<u32> {
        Ok(u32::from_be_bytes(self.take(4)?.try_into().expect("4 bytes")))
    }

    pub fn u64(&mut self) -> Read<u64> {
        Ok(u64::from_be_bytes(self.take(8)?.try_into().expect("8 bytes")))
    }

    pub fn bytes(&mut self) -> Read<Vec<u8>> {
        let count = usize::try_from(self.u64()?).map_err(|_| self.damaged())?;
        Ok(self.take(count)?.to_vec())
    }

    pub fn shard(&mut self) -> Read<ShardKey> {
        let directory = Ino(self.u64()?);
        let index = u16::try_from(self.u32()?).map_err(|_| self.damaged())?;
        Ok(ShardKey { directory, index })
    }

    pub fn reference(&mut self) -> Read<Reference> {
        let kind = kind_of_byte(self.u8()?).ok_or_else(|| self.damaged())?;
        Ok(Reference { kind, ino: Ino(self.u64()?), home: self.shard()? })
    }

    pub fn some<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }

    /// A number that is too high ends where the bytes do, and takes no memory before.
    pub fn each<T>(&mut self, mut read: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let count = self.u64()?;
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(read(self)?);
        }
        Ok(values)
    }
}

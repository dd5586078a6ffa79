//! The record of an inode's extended attributes: for each the length of its name (2 bytes), the
//! length of its value (4 bytes), name and value.

use tidefs_model::Ino;

use crate::error::Error;

/// Bytes of all attributes of one inode together.
const RECORD_BYTES_MAX: usize = 256 << 10;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// In the order in which they were first set.
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Attributes {
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..])
    }

    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        match self.pairs.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value.to_vec(),
            None => self.pairs.push((name.to_vec(), value.to_vec())),
        }
    }

    /// `false`: there was none.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let before = self.pairs.len();
        self.pairs.retain(|(known, _)| known != name);
        self.pairs.len() < before
    }

    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.pairs.iter().map(|(name, _)| &name[..])
    }

    /// `None` when there are no attributes, hence no record.
    pub fn encode(&self) -> Result<Option<Vec<u8>>, Error> {
        let mut record = Vec::new();
        for (name, value) in &self.pairs {
            let name_bytes = u16::try_from(name.len()).map_err(|_| Error::AttributesTooLarge)?;
            let value_bytes = u32::try_from(value.len()).map_err(|_| Error::AttributesTooLarge)?;
            record.extend(name_bytes.to_be_bytes());
            record.extend(value_bytes.to_be_bytes());
            record.extend(name);
            record.extend(value);
        }
        if record.len() > RECORD_BYTES_MAX {
            return Err(Error::AttributesTooLarge);
        }
        Ok((!record.is_empty()).then_some(record))
    }

    pub fn decode(ino: Ino, record: Option<&[u8]>) -> Result<Attributes, Error> {
        let corrupt = Error::Corrupt { what: "the attributes of inode", ino: ino.0 };
        let mut rest = record.unwrap_or_default();
        let mut pairs = Vec::new();
        while !rest.is_empty() {
            let (pair, after) = take_pair(rest).ok_or(corrupt.clone())?;
            pairs.push(pair);
            rest = after;
        }
        Ok(Attributes { pairs })
    }
}

type Pair = (Vec<u8>, Vec<u8>);

fn take_pair(record: &[u8]) -> Option<(Pair, &[u8])> {
    let (name_bytes, rest) = record.split_at_checked(2)?;
    let (value_bytes, rest) = rest.split_at_checked(4)?;
    let (name, rest) =
        rest.split_at_checked(u16::from_be_bytes(name_bytes.try_into().ok()?).into())?;
    let value_bytes = u32::from_be_bytes(value_bytes.try_into().ok()?);
    let (value, rest) = rest.split_at_checked(value_bytes as usize)?;
    Some(((name.to_vec(), value.to_vec()), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_survive_their_record() {
        let mut attributes = Attributes::default();
        attributes.set(b"user.a", b"");
        attributes.set(b"user.b", b"two\0bytes");
        attributes.set(b"user.a", b"one");
        let record = attributes.encode().unwrap();
        assert_eq!(Attributes::decode(Ino(1), record.as_deref()), Ok(attributes));
    }

    #[test]
    fn a_cut_record_is_corrupt_and_none_is_empty() {
        let mut attributes = Attributes::default();
        assert_eq!(attributes.encode(), Ok(None));
        attributes.set(b"user.a", b"one");
        let record = attributes.encode().unwrap().unwrap();
        for length in 1..record.len() {
            assert!(Attributes::decode(Ino(1), Some(&record[..length])).is_err(), "{length}");
        }
        assert_eq!(Attributes::decode(Ino(1), None), Ok(Attributes::default()));
    }

    #[test]
    fn too_many_bytes_are_refused() {
        let mut attributes = Attributes::default();
        for number in 0..5_u8 {
            attributes.set(&[b'u', number], &vec![0; 64 << 10]);
        }
        assert_eq!(attributes.encode(), Err(Error::AttributesTooLarge));
    }
}

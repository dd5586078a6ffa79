//! The functions that every node of a cluster runs, and how a batch is put to them.
//!
//! The library is small and is loaded once by whoever forms the cluster; `function.lua` says what
//! its arguments are. A full server refuses all functions but those that were declared to free
//! memory, and refuses them before they start, so a batch is never half done. What data may fill is
//! less than what a node has: a batch that was refused is asked of another function, which refuses it
//! only when the rest is used up, too. So the head-room costs nothing where there is room.

use std::collections::BTreeMap;

use tidefs_model::ByteSize;
use tidefs_store::{Batch, Check, Outcome, Read, Update};

use crate::wire::{Malformed, Reply, Request};

/// What a node has beyond what it may hold of data, unless something else is asked for.
pub const HEAD_ROOM: ByteSize = ByteSize::mib(8);

const SOURCE: &str = include_str!("function.lua");
/// Where the library says how much head-room there is.
const HEAD_ROOM_LINE: &str = "local HEAD_ROOM = 8388608\n";

/// The library's source for nodes with so much head-room.
pub fn library(head_room: ByteSize) -> String {
    SOURCE.replace(HEAD_ROOM_LINE, &format!("local HEAD_ROOM = {}\n", head_room.0))
}

/// Numbers in front of a program's steps, and bytes of a step.
const HEADER_NUMBERS: usize = 6;
const STEP_BYTES: usize = 17;

/// The names of a batch's fields, each once, with the number by which the program knows it.
#[derive(Default)]
struct Fields<'b> {
    numbers: BTreeMap<&'b [u8], u32>,
    names: Vec<&'b [u8]>,
}

impl<'b> Fields<'b> {
    fn add(&mut self, name: &'b [u8]) {
        let next = self.names.len() as u32 + 1;
        if *self.numbers.entry(name).or_insert(next) == next {
            self.names.push(name);
        }
    }

    fn count(&self) -> u32 {
        self.names.len() as u32
    }
}

/// The arguments of a batch, as they grow.
struct Program<'b> {
    fields: Fields<'b>,
    bytes: Vec<u8>,
    operands: Vec<Operand<'b>>,
}

enum Operand<'b> {
    Bytes(&'b [u8]),
    Number([u8; 8]),
}

/// A check, an update or a read as the program has it.
struct Step<'b> {
    code: u8,
    field: &'b [u8],
    at: u32,
    length: u32,
    operand: Option<Operand<'b>>,
}

impl<'b> Step<'b> {
    fn new(code: u8, field: &'b [u8]) -> Step<'b> {
        Step { code, field, at: 0, length: 0, operand: None }
    }

    fn with(self, at: u32, operand: Operand<'b>) -> Step<'b> {
        Step { at, operand: Some(operand), ..self }
    }
}

impl<'b> Program<'b> {
    fn of(batch: &'b Batch) -> Program<'b> {
        let mut fields = Fields::default();
        let updated: Vec<_> = batch.updates.iter().map(updated).collect();
        let is_updated = |name: &[u8]| updated.contains(&name);
        let kept = batch.checks.iter().map(checked).chain(batch.reads.iter().map(read_from));
        kept.clone().filter(|name| !is_updated(name)).for_each(|name| fields.add(name));
        let first_updated = fields.count() + 1;
        kept.filter(|name| is_updated(name)).for_each(|name| fields.add(name));
        let changed = batch.updates.iter().filter(|update| uses_value(update));
        changed.for_each(|update| fields.add(self::updated(update)));
        let loaded = fields.count();
        updated.iter().for_each(|name| fields.add(name));

        let steps = batch.checks.len() + batch.updates.len() + batch.reads.len();
        let mut bytes = Vec::with_capacity(HEADER_NUMBERS * 4 + steps * STEP_BYTES);
        let counts = [batch.checks.len(), batch.updates.len(), batch.reads.len()];
        let counts = counts.map(|count| count as u32);
        for number in [loaded, first_updated, fields.count()].into_iter().chain(counts) {
            bytes.extend(number.to_be_bytes());
        }
        let mut program = Program { fields, bytes, operands: Vec::with_capacity(steps) };
        batch.checks.iter().for_each(|check| program.push(check_step(check)));
        batch.updates.iter().for_each(|update| program.push(update_step(update)));
        batch.reads.iter().for_each(|read| program.push(read_step(read)));
        program
    }

    /// Operands follow the program and the names of the fields; Lua counts from 1.
    fn push(&mut self, step: Step<'b>) {
        let place = self.fields.count() + self.operands.len() as u32 + 2;
        self.bytes.push(step.code);
        for number in [self.fields.numbers[step.field], step.at, step.length, place] {
            self.bytes.extend(number.to_be_bytes());
        }
        self.operands.extend(step.operand);
    }
}

/// A call of the function that suits the batch.
pub fn batch_request(key: &[u8], batch: &Batch) -> Request<'static> {
    let function: &[u8] = match batch {
        batch if batch.only_reads() => b"tidefs_read",
        batch if batch.reclaims => b"tidefs_batch_reclaim",
        _ => b"tidefs_batch",
    };
    call(function, key, batch)
}

/// The same for a batch that a node full of data has refused.
pub fn batch_request_in_head_room(key: &[u8], batch: &Batch) -> Request<'static> {
    call(b"tidefs_batch_room", key, batch)
}

fn call(function: &[u8], key: &[u8], batch: &Batch) -> Request<'static> {
    let program = Program::of(batch);
    let mut request = Request::new("FCALL").word(function).number(1).word(key);
    request.push(&program.bytes);
    program.fields.names.iter().for_each(|name| request.push(name));
    for operand in &program.operands {
        match operand {
            Operand::Bytes(bytes) => request.push(bytes),
            Operand::Number(bytes) => request.push(bytes),
        }
    }
    request.end()
}

fn checked(check: &Check) -> &[u8] {
    match check {
        Check::Absent { field }
        | Check::Present { field }
        | Check::Equals { field, .. }
        | Check::AtLeast { field, .. }
        | Check::AtMost { field, .. } => field,
    }
}

fn updated(update: &Update) -> &[u8] {
    match update {
        Update::Put { field, .. }
        | Update::Delete { field }
        | Update::Patch { field, .. }
        | Update::Add { field, .. }
        | Update::Max { field, .. } => field,
    }
}

fn read_from(read: &Read) -> &[u8] {
    match read {
        Read::Field { field } | Read::Linked { field, .. } => field,
    }
}

/// The update depends on what the field holds.
fn uses_value(update: &Update) -> bool {
    !matches!(update, Update::Put { .. } | Update::Delete { .. })
}

fn check_step(check: &Check) -> Step<'_> {
    match check {
        Check::Absent { field } => Step::new(b'a', field),
        Check::Present { field } => Step::new(b'p', field),
        Check::Equals { field, value } => Step::new(b'e', field).with(0, Operand::Bytes(value)),
        Check::AtLeast { field, at, least } => {
            Step::new(b'l', field).with(*at, Operand::Number(least.to_be_bytes()))
        }
        Check::AtMost { field, at, most } => {
            Step::new(b'm', field).with(*at, Operand::Number(most.to_be_bytes()))
        }
    }
}

fn update_step(update: &Update) -> Step<'_> {
    match update {
        Update::Put { field, value } => Step::new(b'p', field).with(0, Operand::Bytes(value)),
        Update::Delete { field } => Step::new(b'd', field),
        Update::Patch { field, at, bytes } => {
            Step::new(b's', field).with(*at, Operand::Bytes(bytes))
        }
        Update::Add { field, at, delta } => {
            Step::new(b'a', field).with(*at, Operand::Number(delta.to_be_bytes()))
        }
        Update::Max { field, at, value } => {
            Step::new(b'm', field).with(*at, Operand::Number(value.to_be_bytes()))
        }
    }
}

fn read_step(read: &Read) -> Step<'_> {
    match read {
        Read::Field { field } => Step::new(b'r', field),
        Read::Linked { field, at, length, prefix } => {
            Step { length: *length, ..Step::new(b'f', field).with(*at, Operand::Bytes(prefix)) }
        }
    }
}

/// What the function answers: the check that refused or -1, whether the shard was empty, values.
pub fn outcome(reply: Reply, reads: usize) -> Result<Outcome, Malformed> {
    let mut answers = reply.into_array()?.into_iter();
    let mut next = || answers.next().ok_or(Malformed::Unexpected);
    let refused_by = usize::try_from(next()?.integer()?).ok();
    let shard_was_empty = next()?.integer()? == 1;
    let values = answers.map(Reply::into_optional_bulk).collect::<Result<Vec<_>, _>>()?;
    if values.len() != reads {
        return Err(Malformed::Unexpected);
    }
    Ok(Outcome { refused_by, shard_was_empty, values })
}

/// Writes bytes into a stripe unless that leaves a gap before them; then the answer is -1.
pub fn write_request<'w>(key: &[u8], offset: u32) -> Request<'w> {
    let request = Request::new("FCALL").word(b"tidefs_write").number(1).word(key);
    request.number(offset.into())
}

/// Cuts a stripe to `length` bytes, or removes it.
pub fn trim_request(key: &[u8], length: u32) -> Request<'static> {
    if length == 0 {
        return Request::new("UNLINK").word(key).end();
    }
    let request = Request::new("FCALL").word(b"tidefs_trim").number(1).word(key);
    request.number(length.into()).end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(request: &Request<'_>) -> Vec<Vec<u8>> {
        let mut slices = Vec::new();
        request.gather(0, &mut slices);
        let wire: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let reply = crate::wire::parse(&wire).unwrap().0.into_array().unwrap();
        reply.into_iter().map(|word| word.into_bulk().unwrap()).collect()
    }

    #[test]
    fn fields_are_named_once_those_that_matter_first_and_those_updated_last() {
        let batch = Batch::new().absent("e").absent("x").put("i", "inode").put("e", "entry");
        let batch = batch.add("h", 8, -1).read_linked("e", 3, 4, "i");
        let words = words(&batch_request(b"k", &batch));
        let numbers = |bytes: &[u8]| {
            let numbers = bytes.chunks(4).map(|chunk| chunk.try_into().map(u32::from_be_bytes));
            numbers.collect::<Result<Vec<_>, _>>().unwrap()
        };
        assert_eq!(words[..4], [&b"FCALL"[..], b"tidefs_batch", b"1", b"k"]);
        let (header, steps) = words[4].split_at(24);
        assert_eq!(numbers(header), [3, 2, 4, 2, 3, 1]);
        let steps: Vec<_> =
            steps.chunks(17).map(|step| (char::from(step[0]), numbers(&step[1..]))).collect();
        let expected = [
            ('a', vec![2, 0, 0, 6]),
            ('a', vec![1, 0, 0, 6]),
            ('p', vec![4, 0, 0, 6]),
            ('p', vec![2, 0, 0, 7]),
            ('a', vec![3, 8, 0, 8]),
            ('f', vec![2, 3, 4, 9]),
        ];
        assert_eq!(steps, expected);
        assert_eq!(words[5..9], [b"x", b"e", b"h", b"i"]);
        assert_eq!(words[9..], [&b"inode"[..], b"entry", &[0xff; 8], b"i"]);
    }

    #[test]
    fn the_library_has_the_head_room_that_was_asked_for() {
        assert_eq!(library(HEAD_ROOM), SOURCE);
        let library = library(ByteSize(77));
        assert!(library.contains("local HEAD_ROOM = 77\n"), "{library}");
    }

    #[test]
    fn the_function_suits_the_batch() {
        let name = |batch: &Batch| words(&batch_request(b"k", batch)).swap_remove(1);
        assert_eq!(name(&Batch::new().present("a").read("a")), b"tidefs_read");
        assert_eq!(name(&Batch::new().put("a", "")), b"tidefs_batch");
        assert_eq!(name(&Batch::new().delete("a").reclaims()), b"tidefs_batch_reclaim");
        assert_eq!(words(&trim_request(b"k", 0)), [&b"UNLINK"[..], b"k"]);
        assert_eq!(words(&trim_request(b"k", 9))[1..], [&b"tidefs_trim"[..], b"1", b"k", b"9"]);
    }

    #[test]
    fn an_answer_of_another_shape_is_refused() {
        let integers = |numbers: &[i64]| {
            Reply::Array(numbers.iter().map(|number| Reply::Integer(*number)).collect())
        };
        let outcome = |reply| super::outcome(reply, 0);
        assert_eq!(outcome(integers(&[-1, 1])).unwrap().refused_by, None);
        assert_eq!(outcome(integers(&[3, 0])).unwrap().refused_by, Some(3));
        assert_eq!(outcome(integers(&[3])), Err(Malformed::Unexpected));
        assert_eq!(outcome(integers(&[3, 0, 1])), Err(Malformed::Unexpected));
        assert_eq!(outcome(Reply::Nil), Err(Malformed::Unexpected));
    }
}

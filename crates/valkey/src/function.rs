//! The functions that every node of a cluster runs, and how a batch is put to them.
//!
//! The library is small and is loaded once by whoever forms the cluster; `function.lua` says what
//! its arguments are. A full server refuses all functions but those that were declared to free
//! memory, and refuses them before they start, so a batch is never half done.

use std::collections::BTreeMap;

use tidefs_store::{Batch, Bytes, Check, Outcome, Read, Update};

use crate::wire::{Malformed, Reply, Request};

/// The library's source.
pub const LIBRARY: &str = include_str!("function.lua");

/// Arguments in front of the names of the fields; Lua counts from 1.
const ARGUMENTS_BEFORE_FIELDS: usize = 4;

/// The names of a batch's fields, each once, with the number by which the function knows it.
struct Fields<'b> {
    numbers: BTreeMap<&'b [u8], u64>,
    names: Vec<&'b [u8]>,
}

impl<'b> Fields<'b> {
    fn new() -> Fields<'b> {
        Fields { numbers: BTreeMap::new(), names: Vec::new() }
    }

    fn add(&mut self, name: &'b [u8]) {
        let next = self.names.len() as u64 + 1;
        if *self.numbers.entry(name).or_insert(next) == next {
            self.names.push(name);
        }
    }

    fn number(&self, name: &[u8]) -> u64 {
        self.numbers[name]
    }
}

/// A call of the function that suits the batch.
pub fn batch_request(key: &[u8], batch: &Batch) -> Request<'static> {
    let function: &[u8] = match batch {
        batch if batch.only_reads() => b"tidefs_read",
        batch if batch.reclaims => b"tidefs_batch_reclaim",
        _ => b"tidefs_batch",
    };
    let mut fields = Fields::new();
    batch.checks.iter().for_each(|check| fields.add(checked(check)));
    batch.reads.iter().for_each(|read| fields.add(read_from(read)));
    batch.updates.iter().filter(|update| uses_value(update)).for_each(|u| fields.add(updated(u)));
    let loaded = fields.names.len();
    batch.updates.iter().for_each(|update| fields.add(updated(update)));

    let checks_at = ARGUMENTS_BEFORE_FIELDS + fields.names.len() + 1;
    let updates_at = checks_at + batch.checks.iter().map(check_words).sum::<usize>();
    let reads_at = updates_at + batch.updates.iter().map(update_words).sum::<usize>();
    let mut request = Request::new("FCALL").word(function).number(1).word(key);
    for number in [loaded, fields.names.len(), updates_at, reads_at] {
        request.push_number(number as u64);
    }
    fields.names.iter().for_each(|name| request.push(name));
    batch.checks.iter().for_each(|check| push_check(&mut request, &fields, check));
    batch.updates.iter().for_each(|update| push_update(&mut request, &fields, update));
    batch.reads.iter().for_each(|read| push_read(&mut request, &fields, read));
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

fn check_words(check: &Check) -> usize {
    match check {
        Check::Absent { .. } | Check::Present { .. } => 2,
        Check::Equals { .. } => 3,
        Check::AtLeast { .. } | Check::AtMost { .. } => 4,
    }
}

fn update_words(update: &Update) -> usize {
    match update {
        Update::Delete { .. } => 2,
        Update::Put { .. } => 3,
        Update::Patch { .. } | Update::Add { .. } | Update::Max { .. } => 4,
    }
}

fn push_check(request: &mut Request<'_>, fields: &Fields<'_>, check: &Check) {
    let (code, at_and_number) = match check {
        Check::Absent { .. } => ("absent", None),
        Check::Present { .. } => ("present", None),
        Check::Equals { .. } => ("equals", None),
        Check::AtLeast { at, least, .. } => ("least", Some((*at, *least))),
        Check::AtMost { at, most, .. } => ("most", Some((*at, *most))),
    };
    push_code(request, code, fields.number(checked(check)));
    if let Check::Equals { value, .. } = check {
        request.push(value);
    }
    if let Some((at, number)) = at_and_number {
        request.push_number(at.into());
        request.push(&number.to_be_bytes());
    }
}

fn push_update(request: &mut Request<'_>, fields: &Fields<'_>, update: &Update) {
    let field = fields.number(updated(update));
    match update {
        Update::Put { value, .. } => {
            push_code(request, "put", field);
            request.push(value);
        }
        Update::Delete { .. } => push_code(request, "delete", field),
        Update::Patch { at, bytes, .. } => push_at(request, "patch", field, *at, bytes),
        Update::Add { at, delta, .. } => {
            push_at(request, "add", field, *at, &delta.to_be_bytes());
        }
        Update::Max { at, value, .. } => {
            push_at(request, "max", field, *at, &value.to_be_bytes());
        }
    }
}

fn push_read(request: &mut Request<'_>, fields: &Fields<'_>, read: &Read) {
    match read {
        Read::Field { field } => push_code(request, "read", fields.number(field)),
        Read::Linked { field, at, length, prefix } => {
            push_code(request, "link", fields.number(field));
            request.push_number((*at).into());
            request.push_number((*length).into());
            request.push(prefix);
        }
    }
}

fn push_code(request: &mut Request<'_>, code: &str, field: u64) {
    request.push(code.as_bytes());
    request.push_number(field);
}

fn push_at(request: &mut Request<'_>, code: &str, field: u64, at: u32, bytes: &[u8]) {
    push_code(request, code, field);
    request.push_number(at.into());
    request.push(bytes);
}

/// What the function answers: the check that refused or -1, whether the shard was empty, values.
pub fn outcome(reply: Reply, reads: usize) -> Result<Outcome, Malformed> {
    let mut answers = reply.into_array()?.into_iter();
    let mut next = || answers.next().ok_or(Malformed::Unexpected);
    let refused_by = usize::try_from(next()?.integer()?).ok();
    let shard_was_empty = next()?.integer()? == 1;
    let values = answers.map(value).collect::<Result<Vec<_>, _>>()?;
    if values.len() != reads {
        return Err(Malformed::Unexpected);
    }
    Ok(Outcome { refused_by, shard_was_empty, values })
}

fn value(reply: Reply) -> Result<Option<Bytes>, Malformed> {
    if reply == Reply::Nil { Ok(None) } else { reply.into_bulk().map(Some) }
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

    fn words(request: &Request<'_>) -> Vec<String> {
        let mut slices = Vec::new();
        request.gather(0, &mut slices);
        let wire: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let reply = crate::wire::parse(&wire).unwrap().0.into_array().unwrap();
        let word = |reply: Reply| reply.into_bulk().unwrap().escape_ascii().to_string();
        reply.into_iter().map(word).collect()
    }

    #[test]
    fn fields_are_named_once_and_those_that_matter_first() {
        let batch = Batch::new().absent("e").put("i", "x").put("e", "y").add("h", 8, -1).read("e");
        let expected = "FCALL tidefs_batch 1 k 2 3 10 20 e h i absent 1 put 3 x put 1 y \
                        add 2 8 \\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff read 1";
        assert_eq!(words(&batch_request(b"k", &batch)).join(" "), expected);
    }

    #[test]
    fn the_function_suits_the_batch() {
        let name = |batch: &Batch| words(&batch_request(b"k", batch))[1].clone();
        assert_eq!(name(&Batch::new().present("a").read("a")), "tidefs_read");
        assert_eq!(name(&Batch::new().put("a", "")), "tidefs_batch");
        assert_eq!(name(&Batch::new().delete("a").reclaims()), "tidefs_batch_reclaim");
        assert_eq!(words(&trim_request(b"k", 0)), ["UNLINK", "k"]);
        assert_eq!(words(&trim_request(b"k", 9)), ["FCALL", "tidefs_trim", "1", "k", "9"]);
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

//! Replies whole, in pieces and hostile; requests byte by byte.

use std::io::IoSlice;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn scan(input: &[u8]) -> Result<Option<usize>, Malformed> {
    Scanner::default().scan(input)
}

/// What the whole of `request` is on the wire after its first `sent` bytes.
fn sent_after(request: &Request<'_>, sent: usize) -> Vec<u8> {
    let mut slices = Vec::<IoSlice<'_>>::new();
    request.gather(sent, &mut slices);
    slices.iter().flat_map(|slice| slice.iter().copied()).collect()
}

#[test]
fn a_request_is_an_array_of_its_words() {
    let request = Request::new("SETRANGE").word(b"k\r\n").number(70_000).payload(b"bytes");
    let wire = b"*4\r\n$8\r\nSETRANGE\r\n$3\r\nk\r\n\r\n$5\r\n70000\r\n$5\r\nbytes\r\n";
    assert_eq!(sent_after(&request, 0), wire);
    assert_eq!(request.bytes(), wire.len());
    for sent in 0..=wire.len() {
        assert_eq!(sent_after(&request, sent), wire[sent..], "after {sent}");
    }
    assert_eq!(sent_after(&Request::of(&["PING"]), 0), b"*1\r\n$4\r\nPING\r\n");
    assert_eq!(
        sent_after(&Request::new("SET").word(b"k").payload(b""), 0),
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n"
    );
}

#[test]
fn replies_of_every_kind_are_taken_apart() {
    let bulk = |text: &str| Reply::Bulk(text.into());
    for (wire, reply) in [
        (&b"+OK\r\n"[..], Reply::Status(b"OK".to_vec())),
        (b"-OOM no\r\n", Reply::Error(b"OOM no".to_vec())),
        (b":-12\r\n", Reply::Integer(-12)),
        (b"$-1\r\n", Reply::Nil),
        (b"*-1\r\n", Reply::Nil),
        (b"$0\r\n\r\n", bulk("")),
        (b"$4\r\na\r\nb\r\n", bulk("a\r\nb")),
        (b"*0\r\n", Reply::Array(vec![])),
        (
            b"*3\r\n:1\r\n*1\r\n$1\r\nx\r\n$-1\r\n",
            Reply::Array(vec![Reply::Integer(1), Reply::Array(vec![bulk("x")]), Reply::Nil]),
        ),
    ] {
        assert_eq!(scan(wire), Ok(Some(wire.len())), "{wire:?}");
        assert_eq!(parse(wire), Ok((reply, wire.len())), "{wire:?}");
        let mut scanner = Scanner::default();
        for end in 0..wire.len() {
            assert_eq!(scanner.scan(&wire[..end]), Ok(None), "{:?}", &wire[..end]);
        }
        assert_eq!(scanner.scan(wire), Ok(Some(wire.len())));
        assert_eq!(scanner.scan(wire), Ok(Some(wire.len())), "ready for the next reply");
    }
}

#[test]
fn hostile_replies_are_refused_before_memory_is_taken_for_them() {
    for (wire, error) in [
        (&b"!3\r\n"[..], Malformed::Kind(b'!')),
        (b"\0", Malformed::Kind(0)),
        (b"$99999999999\r\n", Malformed::Length),
        (b"$99999999999999999999999\r\n", Malformed::Number),
        (b"*1048577\r\n", Malformed::Length),
        (b"*1048576\r\n*1048576\r\n", Malformed::Length),
        (b"$-2\r\n", Malformed::Length),
        (b"$+1\r\n", Malformed::Number),
        (b"$\r\n", Malformed::Number),
        (b":1 2\r\n", Malformed::Number),
        (b"$1\r\nabc", Malformed::LineEnd),
        (b"+a\rb\r\n", Malformed::LineEnd),
    ] {
        assert_eq!(scan(wire), Err(error), "{wire:?}");
    }
    assert_eq!(scan(&[b'+'; 5_000]), Err(Malformed::LongLine));
    assert_eq!(scan(format!("${}\r\n", REPLY_BYTES_MAX).as_bytes()), Err(Malformed::Length));
    let deep = [b"*1\r\n".repeat(100), b":1\r\n".to_vec()].concat();
    assert_eq!(parse(&deep), Err(Malformed::Depth));
    assert_eq!(parse(b"*1000000\r\n"), Err(Malformed::Truncated));
}

#[test]
fn the_start_of_a_bulk_reply_is_told_from_others() {
    assert_eq!(bulk_start(b""), Ok(BulkStart::Incomplete));
    assert_eq!(bulk_start(b"$12\r"), Ok(BulkStart::Incomplete));
    assert_eq!(bulk_start(b"$12\r\nab"), Ok(BulkStart::Bulk { header: 5, bytes: 12 }));
    assert_eq!(bulk_start(b"-OOM"), Ok(BulkStart::Other));
    assert_eq!(bulk_start(b"$-1\r\n"), Ok(BulkStart::Other));
}

const CORPUS: &str = include_str!("corpus/replies.txt");

/// Bytes that a reply keeps, with what its parts take.
fn memory(reply: &Reply) -> usize {
    size_of::<Reply>()
        + match reply {
            Reply::Status(text) | Reply::Error(text) | Reply::Bulk(text) => text.capacity(),
            Reply::Array(values) => {
                let unused = (values.capacity() - values.len()) * size_of::<Reply>();
                unused + values.iter().map(memory).sum::<usize>()
            }
            Reply::Integer(_) | Reply::Nil => 0,
        }
}

/// Whatever arrives: no panic, no end that depends on how it arrives in pieces, no memory beyond
/// what arrived, and what is taken apart means what it is made of.
fn feed(input: &[u8]) {
    let whole = scan(input);
    let mut scanner = Scanner::default();
    let by_pieces = (0..=input.len()).map(|end| scanner.scan(&input[..end]));
    let by_pieces = by_pieces.into_iter().find(|found| *found != Ok(None)).unwrap_or(Ok(None));
    if let Ok(found) = whole {
        assert_eq!(by_pieces, Ok(found));
    }
    if let Ok((reply, length)) = parse(input) {
        assert!(memory(&reply) <= 100 + 40 * length, "{length} bytes take {}", memory(&reply));
        assert_eq!(parse(&encode(&reply)).map(|(again, _)| again), Ok(reply));
        // A whole reply ends where the scanner says, unless its line came in pieces that are none.
        if let Ok(Some(scanned)) = whole {
            assert_eq!(scanned, length);
        }
    }
    let _ = bulk_start(input);
    let _ = crate::view::rows(input);
    let _ = crate::view::parse_view(input);
}

#[test]
fn no_bytes_of_a_server_do_harm() {
    let seeds = tidefs_fuzz::corpus(CORPUS);
    assert!(seeds.len() > 20, "{} replies", seeds.len());
    tidefs_fuzz::run(&seeds, 200_000, feed);
}

/// Any reply, small.
fn reply() -> impl Strategy<Value = Reply> {
    let line = vec(any::<u8>().prop_filter("no line end", |byte| !b"\r\n".contains(byte)), 0..9);
    let leaf = prop_oneof![
        line.clone().prop_map(Reply::Status),
        line.prop_map(Reply::Error),
        any::<i64>().prop_map(Reply::Integer),
        vec(any::<u8>(), 0..20).prop_map(Reply::Bulk),
        Just(Reply::Nil),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| vec(inner, 0..5).prop_map(Reply::Array))
}

fn encode(reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::Status(text) => [b"+", &text[..], b"\r\n"].concat(),
        Reply::Error(text) => [b"-", &text[..], b"\r\n"].concat(),
        Reply::Integer(number) => format!(":{number}\r\n").into_bytes(),
        Reply::Nil => b"$-1\r\n".to_vec(),
        Reply::Bulk(bytes) => {
            [format!("${}\r\n", bytes.len()).as_bytes(), &bytes[..], b"\r\n"].concat()
        }
        Reply::Array(values) => {
            let count = format!("*{}\r\n", values.len()).into_bytes();
            values.iter().fold(count, |wire, value| [wire, encode(value)].concat())
        }
    }
}

/// Bytes that look like a protocol more often than chance would have it.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let letters = proptest::sample::select(&b"+-:$*019\r\n\r\n\r\na\0\xff"[..]);
    vec(letters, 0..64)
}

proptest! {
    #[test]
    fn what_a_server_writes_is_read_back(reply in reply(), cut in any::<prop::sample::Index>()) {
        let wire = encode(&reply);
        let mut scanner = Scanner::default();
        let cut = cut.index(wire.len());
        prop_assert_eq!(scanner.scan(&wire[..cut]), Ok(None));
        prop_assert_eq!(scanner.scan(&wire), Ok(Some(wire.len())));
        prop_assert_eq!(parse(&wire), Ok((reply, wire.len())));
    }

    #[test]
    fn no_bytes_make_it_panic(noise in noise()) {
        let whole = scan(&noise);
        let mut scanner = Scanner::default();
        let mut by_pieces = Ok(None);
        for end in 0..=noise.len() {
            by_pieces = scanner.scan(&noise[..end]);
            if by_pieces != Ok(None) {
                break;
            }
        }
        if let Ok(Some(length)) = whole {
            prop_assert_eq!(&by_pieces, &Ok(Some(length)));
            if let Ok((_, parsed)) = parse(&noise) {
                prop_assert_eq!(parsed, length);
            }
        }
        let _ = (parse(&noise), bulk_start(&noise));
    }
}

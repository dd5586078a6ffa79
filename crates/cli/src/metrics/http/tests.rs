//! What is asked of the port, and what it answers.

use std::net::SocketAddr;

use super::*;
use crate::strangers::STRANGERS_MOST;

/// Answers with what it understood.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let echo = |asked: &Asked| Answer {
        status: "200 OK",
        headers: "X-Test: yes\r\n",
        media: "text/plain",
        body: format!("{asked:?}"),
    };
    serve(listener, |_| false, echo).unwrap();
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    // A server that gave up may have reset the connection behind its answer.
    let _ = stream.read_to_string(&mut text);
    text
}

fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(address);
    let _ = stream.write_all(request);
    answer(stream)
}

#[test]
fn a_request_is_understood_and_answered_in_full() {
    let address = server();
    let request = "GET /metrics?a=b HTTP/1.1\r\nHost: x\r\nauthorization: Bearer t\r\n\r\n";
    let said = ask(address, request.as_bytes());
    let (head, body) = said.split_once("\r\n\r\n").expect("head and body");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
    for header in ["X-Test: yes", "Connection: close", &format!("Content-Length: {}", body.len())] {
        assert!(head.contains(header), "no {header} in {said}");
    }
    let authorization = Some(b"Bearer t".to_vec());
    let (method, path) = ("GET".to_owned(), "/metrics".to_owned());
    assert_eq!(body, format!("{:?}", Asked { method, path, authorization }));
    let said = ask(address, b"HEAD / HTTP/1.0\r\n\r\n");
    assert!(said.ends_with("\r\n\r\n") && !said.contains("Content-Length: 0"), "{said}");
}

#[test]
fn what_is_no_request_or_too_much_of_one_is_refused_in_words() {
    let address = server();
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65));
    for (request, status) in [
        ("nonsense\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nno header\r\n\r\n", "400"),
        ("\u{16}\u{3}\u{1}\u{2}", "400"),
        (&long, "431"),
        (&many, "431"),
    ] {
        let said = ask(address, request.as_bytes());
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{said:?} to {request:.40}");
    }
}

#[test]
fn clients_that_hang_are_cut_off_while_others_wait_their_turn() {
    let address = server();
    // Some that say nothing, and some that never come to an end.
    let mut hanging: Vec<_> = (0..8).map(|_| connect(address)).collect();
    for stream in hanging.iter_mut().step_by(2) {
        stream.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    }
    let said = ask(address, b"GET / HTTP/1.1\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    for stream in hanging {
        assert!(answer(stream).starts_with("HTTP/1.1 408 "));
    }
}

#[test]
fn whoever_asks_is_answered_however_many_say_nothing() {
    let address = server();
    // Where they waited for each other, the last would wait for minutes.
    let silent: Vec<_> = (0..8 * STRANGERS_MOST).map(|_| connect(address)).collect();
    let said = ask(address, b"GET / HTTP/1.1\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    drop(silent);
}

/// What is asked for may take its time, and strangers push each other out.
#[test]
fn whoever_is_known_is_answered_whatever_strangers_do_meanwhile() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel();
    let goes_on = std::sync::Mutex::new(goes_on);
    let slow = move |asked: &Asked| {
        begun.send(()).unwrap();
        goes_on.lock().unwrap().recv().unwrap();
        Answer { status: "200 OK", headers: "", media: "text/plain", body: asked.path.clone() }
    };
    serve(listener, |asked| asked.authorization.is_some(), slow).unwrap();
    let mut stream = connect(address);
    stream.write_all(b"GET /tree HTTP/1.1\r\nAuthorization: Bearer t\r\n\r\n").unwrap();
    has_begun.recv_timeout(Duration::from_secs(20)).unwrap();
    let silent: Vec<_> = (0..2 * STRANGERS_MOST).map(|_| connect(address)).collect();
    // All have been let in, or pushed out, when the last is told that it said nothing.
    for stream in silent {
        answer(stream);
    }
    go_on.send(()).unwrap();
    let said = answer(stream);
    assert!(said.starts_with("HTTP/1.1 200 ") && said.ends_with("/tree"), "{said}");
}

#[test]
fn one_that_drips_has_no_more_time_than_one_that_says_nothing() {
    let address = server();
    let mut stream = connect(address);
    let begun = Instant::now();
    while stream.write_all(b"G").is_ok() && begun.elapsed() < 3 * HEAD_WAIT {
        thread::sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() < 3 * HEAD_WAIT, "{:?}", begun.elapsed());
}

#[test]
fn any_bytes_are_answered_or_cut_off() {
    let seeds = ["GET /metrics HTTP/1.1\r\nAuthorization: Bearer t\r\n\r\n"];
    let seeds: Vec<Vec<u8>> = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    tidefs_fuzz::run(&seeds, 50_000, |bytes| {
        let _ = parse(bytes);
    });
}

//! Servers for tests, as ill-behaved as wanted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// What the server was asked.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Method and path.
    pub(crate) line: String,
    pub(crate) headers: String,
    /// Null if there is none.
    pub(crate) body: Value,
    /// How many requests came before.
    pub(crate) nth: usize,
}

pub(crate) struct Stub {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Stub {
    /// Serves on loopback until the test's process ends. The handler writes the raw answer; the connection is
    /// closed after it.
    pub(crate) fn new(handler: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (handler, log) = (Arc::new(handler), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (handler, log) = (Arc::clone(&handler), Arc::clone(&log));
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let mut request = read(&stream);
                    {
                        let mut log = log.lock().unwrap();
                        request.nth = log.len();
                        log.push(request.clone());
                    }
                    handler(&request, &mut stream);
                });
            }
        });
        Self { url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Request {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut headers = String::new();
    while !headers.ends_with("\r\n\r\n") && reader.read_line(&mut headers).unwrap() > 2 {}
    let headers = headers.to_lowercase();
    let length = headers.lines().find_map(|h| h.strip_prefix("content-length:"));
    let mut body = vec![0; length.map_or(0, |l| l.trim().parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    Request {
        line: line.trim_end().trim_end_matches(" HTTP/1.1").to_owned(),
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
        nth: 0,
    }
}

/// Writes a whole answer. That the client may be gone is no mistake.
pub(crate) fn say(stream: &mut TcpStream, state: &str, headers: &str, body: &str) {
    let length = body.len();
    let head = format!("HTTP/1.1 {state}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n");
    let _ = stream.write_all((head + body).as_bytes());
}

/// Writes JSON with state 200.
pub(crate) fn json(stream: &mut TcpStream, body: &Value) {
    say(stream, "200 OK", "content-type: application/json\r\n", &body.to_string());
}

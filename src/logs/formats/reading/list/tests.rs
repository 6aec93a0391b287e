//! Tests of `list`.

use super::*;

/// Items as they are, other pieces by where they begin.
fn cut(text: &str, max: u64) -> Vec<String> {
    let reader = Box::new(std::io::BufReader::with_capacity(7, std::io::Cursor::new(text.to_owned())));
    let told = |piece: Piece| match piece.content {
        Content::Item(bytes) => {
            let text_of = &text.as_bytes()[piece.offset as usize..][..bytes.len()];
            assert_eq!(text_of, bytes);
            String::from_utf8(bytes).unwrap()
        }
        Content::Damage(_) | Content::Unread(_) => format!("at {}", piece.offset),
    };
    Items::new(reader, max).map(told).collect()
}

const A: &str = r#"{"id":1,"m":[{"r":"[{"}]}"#;
const B: &str = r#"{"id":2,"m":[{"r":"b\"},{"}]}"#;
const C: &str = r#"{"m":[],"id":3,"x":{}}"#;

/// It says nothing of what stands in the file.
#[test]
fn an_error_of_the_machine_is_no_damage() {
    struct Failing(std::io::Error);
    impl std::io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(self.0.raw_os_error().map_or_else(|| self.0.kind().into(), std::io::Error::from_raw_os_error))
        }
    }
    use std::io::{BufReader, Cursor, Error, ErrorKind, Read as _};
    for (error, is_passing) in [
        (Error::from_raw_os_error(5), true),
        (Error::from_raw_os_error(24), true),
        (ErrorKind::ResourceBusy.into(), true),
        (ErrorKind::InvalidData.into(), false),
        (ErrorKind::UnexpectedEof.into(), false),
    ] {
        let reader = BufReader::new(Cursor::new(&b"[{\"a\":1},"[..]).chain(Failing(error)));
        let pieces: Vec<Content> = Items::new(Box::new(reader), 100).map(|piece| piece.content).collect();
        assert!(matches!(pieces[0], Content::Item(_)), "{pieces:?}");
        assert_eq!(matches!(pieces[1], Content::Unread(_)), is_passing, "{pieces:?}");
    }
}

#[test]
fn whole_lists() {
    for text in [
        format!("[{A},{B},{C}]"),
        format!("\u{feff} [\n{A},\n{B} ,\r\n{C}\n]\n"),
        format!("[{A}][{B}]\n[{C}]"),
        format!("[{A},{B},{C},]"),
    ] {
        assert_eq!(cut(&text, 1000), [A, B, C], "{text}");
    }
    assert_eq!(cut("[]", 10), [""; 0]);
    assert_eq!(cut(&format!("{{}}{{\"a\":1}}\n[{A},{B}]"), 1000), ["{}", "{\"a\":1}", A, B]);
    assert_eq!(cut(" ", 10), [""; 0]);
}

#[test]
fn damage_costs_the_damaged_item_alone() {
    let at = |n: usize| format!("at {n}");
    let broken = |bad: &str| cut(&format!("[{A},{bad},{C}]"), 1000);
    let start = A.len() + 2;
    for bad in [
        B.replace("]}", "}"),
        B.replace(r#""m""#, r#""m"#),
        B.replace("[{", "{"),
        B.replace("\"b", "b"),
        B.replace(",\"m", "\0,\"m"),
        B[..20].to_owned(),
        "17,true".to_owned(),
        format!("[{}", &B[..9]),
    ] {
        assert_eq!(broken(&bad), [A.to_owned(), at(start), C.to_owned()], "{bad}");
    }
    // A bracket too many costs nothing but itself.
    assert_eq!(broken(&format!("{{{B}")), [A.to_owned(), at(start), B.to_owned(), C.to_owned()]);
    assert_eq!(broken(&format!("[{B}")), [A.to_owned(), at(start), B.to_owned(), C.to_owned()]);
    assert_eq!(broken(&format!("]{B}")), [A, B, C]);
    // Cut: in an item, behind one, behind a comma.
    let whole = format!("[{A},{B}");
    assert_eq!(cut(&whole[..whole.len() - 5], 1000), [A.to_owned(), at(start)]);
    assert_eq!(cut(&whole, 1000), [A.to_owned(), B.to_owned(), at(whole.len())]);
    // The first one is damaged, or stands behind something else.
    let text = format!("[{}{B},{C}]", &A[..A.len() - 2]);
    assert_eq!(cut(&text, 1000), [at(1), B.to_owned(), C.to_owned()]);
    assert_eq!(cut(&format!("x{A},{B}]"), 1000), [at(0), A.to_owned(), B.to_owned()]);
}

#[test]
fn many_damaged_items_cost_themselves_alone() {
    // Each is looked through object by object; what is spent for that is what was looked at.
    let inner = r#"{"role":"user","content":"x"},"#.repeat(400);
    let item = |i: usize, end: &str| format!(r#"{{"id":{i},"m":[{inner}{{}}{end}}}"#);
    let items: Vec<String> = (0..400).map(|i| item(i, if i % 2 == 1 { "" } else { "]" })).collect();
    let found = cut(&format!("[{}]", items.join(",")), 1 << 20);
    let whole: Vec<&String> = found.iter().filter(|piece| piece.starts_with('{')).collect();
    assert_eq!(whole, items.iter().step_by(2).collect::<Vec<_>>());
    assert_eq!(found.len(), 400);
}

/// Whatever a list of n bytes holds, what is looked through is a multiple of n.
#[test]
fn looking_through_damage_is_linear() {
    for n in [1_000, 100_000] {
        for text in [
            "[".to_owned() + &r#"{"a":"#.repeat(n),
            "[".to_owned() + &r#"{"a":{"b":"#.repeat(n),
            format!("[{{\"x\":1}},{{\"y\":{}1{},}},{{}}", r#"{"a":"#.repeat(n), "}".repeat(n)),
        ] {
            let most = LEAST_LOOKED_THROUGH + (LOOKED_THROUGH_A_BYTE + 4) * text.len();
            let mut items = Items::new(Box::new(std::io::Cursor::new(text)), 1 << 30);
            assert!(items.by_ref().count() <= 4);
            assert!(items.n_scanned <= most, "{} of {most}", items.n_scanned);
        }
    }
}

#[test]
fn a_list_in_a_document_ends_with_it() {
    let cut = |text: &str| -> (Vec<String>, u64) {
        let mut items = Items::of_field(Box::new(std::io::Cursor::new(text.to_owned())), 5, 1000);
        let told = items.by_ref().map(|piece| match piece.content {
            Content::Item(bytes) => String::from_utf8(bytes).unwrap(),
            Content::Damage(_) | Content::Unread(_) => format!("at {}", piece.offset),
        });
        (told.collect(), items.place())
    };
    let text = format!("{A},{B}],\"n\":[{C}]}}");
    assert_eq!(cut(&format!("{text}{C}")), (vec![A.to_owned(), B.to_owned()], 5 + text.len() as u64));
    // A bracket too many is no end of the document.
    let text = format!("{A}],{B}]}}");
    assert_eq!(cut(&text).0, [A, B]);
}

#[test]
fn what_is_too_long_is_told_and_not_held() {
    let long = format!(r#"{{"id":9,"m":["{}"]}}"#, "x".repeat(3 * CHUNK));
    let start = A.len() + 2;
    let told = cut(&format!("[{A},{long},{C}]"), 1000);
    assert_eq!(told, [A.to_owned(), format!("at {start}"), C.to_owned()]);
}

//! Bytes that a strict parser refuses, and values that stand in one place.

use super::*;

#[test]
fn what_ends_early_is_closed_behind_its_last_whole_member() {
    let of =
        |text: &str| closed(text.as_bytes()).map(|(closed, at)| (String::from_utf8(closed).unwrap(), at));
    for (torn, whole) in [
        (r#"{"runs":[{"a":1},{"a":2"#, r#"{"runs":[{"a":1}]}"#),
        (r#"{"runs":[{"a":1},{"b":[3,4],"a":2"#, r#"{"runs":[{"a":1},{"b":[3,4]}]}"#),
        (r#"{"a":"x, y]","b":"is torn"#, r#"{"a":"x, y]"}"#),
        (r#"{"a":1,"b":2}"#, ""),
        (r#"{"a":1,"b":2},"#, ""),
        (r#"{"a":"#, ""),
        (r#"[1]]"#, ""),
        ("words, and words", ""),
    ] {
        assert_eq!(of(torn).map_or(String::new(), |(closed, _)| closed), whole, "{torn}");
    }
    assert_eq!(of(r#"[[1],[2"#), Some(("[[1]]".to_owned(), 4)));
}

#[test]
fn lone_surrogates_are_replaced_and_pairs_stay() {
    let (fixed, repairs) = repair(br#"{"a":"\ud83d x \ud83d\ude00 \\ud83d \ude00"}"#).unwrap();
    assert_eq!(fixed, br#"{"a":"\ufffd x \ud83d\ude00 \\ud83d \ufffd"}"#);
    assert_eq!(repairs, Repairs { lone_surrogates: 2, ..Repairs::default() });
    assert!(repair(br#"{"a":"\n"}"#).is_none());
    assert!(repair(br#"{"a":"\"#).is_none());
}

#[test]
fn numbers_that_are_not_finite_become_null_outside_of_strings() {
    let (fixed, repairs) = repair(br#"{"a":NaN,"b":[-Infinity, Infinity],"c":"NaN \" NaN","d":-1}"#).unwrap();
    assert_eq!(fixed, br#"{"a":null,"b":[null, null],"c":"NaN \" NaN","d":-1}"#);
    assert_eq!(repairs.not_finite, 3);
    assert!(repair(br#"{"a":"NaN"}"#).is_none() && repair(br#"{"a":NaNa}"#).is_none());
}

#[test]
fn what_cannot_stand_in_a_string_is_taken_as_it_stands() {
    for (text, whole, n) in [
        (
            r#"{"a":"x:\***@***.*** \n \\ \" \u00e4","b":[]}"#,
            r#"{"a":"x:\\***@***.*** \n \\ \" \u00e4","b":[]}"#,
            1,
        ),
        ("[\"a\tb\nc\",\t1]", "[\"a\\u0009b\\u000ac\",\t1]", 2),
        (r#"["\u12","it\'s"]"#, r#"["\\u12","it\\'s"]"#, 2),
    ] {
        let (fixed, repairs) = repair(text.as_bytes()).unwrap();
        assert_eq!((String::from_utf8(fixed).unwrap().as_str(), repairs.bare), (whole, n));
    }
    // Torn text stays as it is.
    assert!(repair(b"{\"a\":\"x\n{\"b\":\"\\q\"}").is_none());
}

#[test]
fn invalid_utf8_is_replaced() {
    let (fixed, repairs) = repair(b"{\"a\":\"\xff\xfe\"}").unwrap();
    assert_eq!(fixed, "{\"a\":\"\u{fffd}\u{fffd}\"}".as_bytes());
    assert_eq!(repairs.invalid_utf8, 2);
}

/// The parts of a text, torn ones in round brackets. Records have the key `r`.
fn cut(text: &str) -> Vec<String> {
    let is_record = |object: &[u8]| object.starts_with(b"{\"r\"");
    let told = |part: Part| {
        let text = text[part.range].to_owned();
        if part.is_whole { text } else { format!("({text})") }
    };
    parts(text.as_bytes(), is_record).into_iter().map(told).collect()
}

#[test]
fn values_on_one_line_are_told_apart() {
    assert_eq!(cut(r#"{"a":"}{"}[1,{"b":2}] {"cut":"#), [r#"{"a":"}{"}"#, r#"[1,{"b":2}]"#, r#"( {"cut":)"#]);
    assert_eq!(cut(r#"{"a":1},{"a":2}"#), [r#"{"a":1}"#, "(,)", r#"{"a":2}"#]);
    assert_eq!(cut(r#"log: {"r":1} 17"#), ["(log: )", r#"{"r":1}"#, "( 17)"]);
    assert_eq!(cut(r#"null [{"a":1}]"#), ["(null )", r#"[{"a":1}]"#]);
    let is_record = |value: &[u8]| value.starts_with(b"[{");
    for stray in ["x", "{", "[", "}\n", "# c\n"] {
        let list = [stray, r#"[{"a":1},{"b":2}]"#].concat();
        let parts = parts(list.as_bytes(), is_record);
        assert_eq!(parts.last().unwrap().range, stray.len()..list.len(), "{stray}");
    }
    assert_eq!(cut(r#"[{"r":1},"#), ["([)", r#"{"r":1}"#, "(,)"]);
    // Of a record without its beginning no part is a record.
    let text = r#"e":"x"},{"a":1},{"a":2}],"b":1}"#;
    assert_eq!(cut(text), [format!("({text})")]);
    assert_eq!(value_end(b"[[[[", 0), None);
    assert_eq!(value_end(b"true, 1", 0), Some(4));
}

#[test]
fn a_whole_value_behind_a_torn_one_is_told() {
    // The torn text ends inside of a string, so that all quotes behind it seem to be the other way round.
    let torn = r#"{"a":{"x":[{"t":"q"},{"t":"cut { "#;
    let whole = r#"{"a":{"x":[{"t":"}{"}]},"b":1}"#;
    let open = |text: &str| format!("({text})");
    assert_eq!(cut(&format!("{torn}{whole}")), [open(torn), whole.to_owned()]);
    assert_eq!(cut(&format!("{torn}{whole}\0{whole}{torn}")), [&open(torn), whole, whole, &open(torn)]);
    assert_eq!(cut(&format!("{whole}{torn}{whole}")), [whole, &open(torn), whole]);
    for one in [r#"{"a":{"b":1},"c"#, r#"{"a":[{"b":1}"#, r#"{"a":[{"b":1},{"#] {
        assert_eq!(cut(one), [open(one)]);
    }
    assert_eq!(cut(r#"{"a":[{"a":1}"#), [r#"({"a":[)"#, r#"{"a":1}"#]);
    // Wherever the torn one ends: a record is told by what it is.
    let (first, second) =
        (r#"{"a":{"m":[{"t":"q \"{"},[17,null]],"k":"v"},"z":{}}"#, r#"{"r":[{"t":"}{"}]}"#);
    for end in 1..first.len() {
        assert_eq!(cut(&format!("{}{second}", &first[..end])).last().unwrap(), second, "{end}");
    }
}

#[test]
fn values_without_content_are_told() {
    for (text, n) in [
        ("{} [[],{}]null 17\n\"text\"\n{\"a\":1}", 25),
        ("{\"a\":1}", 0),
        ("[{\"a\":1}]", 0),
        ("\"key\": 1,\n{}", 0),
        ("{},{\"a\":1}", 0),
        ("null", 0),
        ("null\n[]", 5),
        ("log: {}", 0),
        ("[", 0),
    ] {
        assert_eq!(empty_values(text.as_bytes()), n, "{text}");
    }
}

#[test]
fn padding_around_a_value() {
    let told = |text: &'static str| (padding(text.as_bytes()), without_padding(text.as_bytes()));
    assert_eq!(told("\0\0 {} \0"), (3, &b"{}"[..]));
    assert_eq!(told(" {} "), (1, &b"{}"[..]));
    assert_eq!(told("\u{feff}\0\r\n\u{feff}{\0}\u{feff}\n"), (9, &b"{\0}"[..]));
    assert_eq!(told("\0\0"), (2, &b""[..]));
    assert_eq!(padding(b"\xef\xbb{"), 0);
    assert_eq!(told("\u{1e}{}\n"), (1, &b"{}"[..]));
    assert_eq!(told("data: {} \u{2028}"), (6, &b"{}"[..]));
    assert_eq!(told("\u{a0}\u{3000}\u{b}{}\u{a0}"), (6, &b"{}"[..]));
    assert_eq!(told("\u{e4}"), (0, "\u{e4}".as_bytes()));
}

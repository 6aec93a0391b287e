//! Typed records that count which fields a log has, which of them are read, and which are dropped.
//!
//! [`record!`] declares a struct of optional fields and its `Deserialize`. Every key met is counted
//! per thread; [`take_counts`] hands the counts over and starts again. A missing field and a `null`
//! are the same (`None`), and unknown keys are skipped without being materialised.
//!
//! A value of the wrong type is an error, at first. A reader is then run again [`leniently`]: each
//! field and list item is read by itself, and what does not fit is left out and told as a loss. So
//! clean logs pay nothing for the odd ones.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::marker::PhantomData;

use rustc_hash::FxHashMap;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, SeqAccess, Visitor};
use serde_json::value::{RawValue, Value};

use super::draft::Losses;

/// Number of times each field was met, by `record.field`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldCounts {
    pub(crate) mapped: BTreeMap<String, u64>,
    pub(crate) dropped: BTreeMap<String, u64>,
}

/// At most so many different unknown keys are told apart; objects keyed by ids would fill memory.
const MAX_DROPPED_KEYS: usize = 300;

/// Hashes an address by itself: the keys are few and already distinct.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(b);
        }
    }
    fn write_usize(&mut self, n: usize) {
        self.0 = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[derive(Default)]
struct Counts {
    mapped: HashMap<usize, (&'static str, u64), BuildHasherDefault<AddressHasher>>,
    /// Few keys are told apart, so that no file can slow a simple hash down.
    dropped: FxHashMap<&'static str, FxHashMap<String, u64>>,
    n_dropped: usize,
}

thread_local! {
    static COUNTS: RefCell<Counts> = RefCell::default();
    static IS_LENIENT: Cell<bool> = const { Cell::new(false) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static ODD: RefCell<Losses> = RefCell::default();
}

/// Counts a field that is read. The name is known by its address: this runs once a key.
pub(crate) fn note_mapped(name: &'static str) {
    COUNTS.with_borrow_mut(|c| c.mapped.entry(name.as_ptr() as usize).or_insert((name, 0)).1 += 1);
}

/// Counts a field that is left out.
pub(crate) fn note_dropped(record: &'static str, key: &str) {
    COUNTS.with_borrow_mut(|c| {
        let full = c.n_dropped >= MAX_DROPPED_KEYS;
        let keys = c.dropped.entry(record).or_default();
        if let Some(n) = keys.get_mut(key) {
            *n += 1;
            return;
        }
        let key = if full || key.len() > 80 { "(other)" } else { key };
        *keys.entry(key.to_owned()).or_default() += 1;
        c.n_dropped += 1;
    });
}

/// The counts of this thread since the last call.
pub(crate) fn take_counts() -> FieldCounts {
    let counts = COUNTS.with_borrow_mut(std::mem::take);
    let mut out = FieldCounts::default();
    // Two literals of one name may have two addresses, so names are added up here.
    for (name, n) in counts.mapped.into_values() {
        *out.mapped.entry(name.to_owned()).or_default() += n;
    }
    for (record, keys) in counts.dropped {
        for (key, n) in keys {
            *out.dropped.entry(format!("{record}.{key}")).or_default() += n;
        }
    }
    out
}

/// Lenient reads are not nested deeper than this: each level has its own parser.
const MAX_LENIENT_DEPTH: u32 = 32;

/// Whether this thread leaves out what does not fit.
pub(crate) fn is_lenient() -> bool {
    IS_LENIENT.get()
}

/// Runs `read` so that it leaves out what does not fit; also returns what that was.
pub(crate) fn leniently<T>(read: impl FnOnce() -> T) -> (T, Losses) {
    let before = IS_LENIENT.replace(true);
    let out = read();
    IS_LENIENT.set(before);
    (out, ODD.take())
}

/// Tells that something odd was left out or taken as something else.
pub(crate) fn note_odd(what: &str) {
    ODD.with_borrow_mut(|odd| odd.add(what));
}

/// Reads a value by itself.
fn read_alone<T: DeserializeOwned>(text: &str) -> Option<T> {
    let depth = DEPTH.get();
    if depth >= MAX_LENIENT_DEPTH {
        return None;
    }
    DEPTH.set(depth + 1);
    let value = serde_json::from_str(text).ok();
    DEPTH.set(depth);
    value
}

/// Reads a field; a number counts as text where text is meant, what does not fit as missing.
pub(crate) fn read_odd_field<T: DeserializeOwned>(raw: &RawValue, name: &str) -> Option<T> {
    let text = raw.get();
    if let Some(value) = read_alone::<Option<T>>(text) {
        return value;
    }
    if text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && let Some(value) = read_alone::<T>(&format!("\"{text}\""))
    {
        note_odd(&format!("number taken as text: {name}"));
        return Some(value);
    }
    note_odd(&format!("field of the wrong type left out: {name}"));
    None
}

/// A list; read leniently, items that do not fit are left out.
#[derive(Debug)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !is_lenient() {
            return Vec::deserialize(deserializer).map(List);
        }
        let items = Vec::<&RawValue>::deserialize(deserializer)?;
        Ok(List(items.into_iter().filter_map(|raw| read_odd_item(raw)).collect()))
    }
}

fn read_odd_item<T: DeserializeOwned>(raw: &RawValue) -> Option<T> {
    let item = read_alone(raw.get());
    if item.is_none() {
        note_odd("list item of the wrong type left out");
    }
    item
}

/// The next item of a list that fits.
pub(crate) fn next_item<'de, T: DeserializeOwned, A: SeqAccess<'de>>(
    seq: &mut A,
) -> Result<Option<T>, A::Error> {
    if !is_lenient() {
        return seq.next_element();
    }
    while let Some(raw) = seq.next_element::<&RawValue>()? {
        if let Some(item) = read_odd_item(raw) {
            return Ok(Some(item));
        }
    }
    Ok(None)
}

/// A value that may be written as the JSON of it in a string.
#[derive(Debug, Default)]
pub(crate) struct Embedded<T>(pub(crate) T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Embedded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let read = match raw.starts_with('"') {
            true => serde_json::from_str::<String>(raw).and_then(|text| serde_json::from_str(&text)),
            false => serde_json::from_str(raw),
        };
        read.map(Embedded).map_err(serde::de::Error::custom)
    }
}

/// The items of a list, each read when its turn comes: read, a message takes ten times the memory of its text.
pub(crate) struct Unread<T>(Vec<Box<RawValue>>, PhantomData<T>);

impl<T> Default for Unread<T> {
    fn default() -> Self {
        Unread(Vec::new(), PhantomData)
    }
}

impl<'de, T> Deserialize<'de> for Unread<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Unread(Vec::deserialize(deserializer)?, PhantomData))
    }
}

impl<T: DeserializeOwned> Unread<T> {
    /// The items; read leniently, those that do not fit are left out.
    pub(crate) fn read(self) -> impl Iterator<Item = serde_json::Result<T>> {
        let read = |raw: Box<RawValue>| match is_lenient() {
            true => read_odd_item(&raw).map(Ok),
            false => Some(serde_json::from_str(raw.get())),
        };
        self.0.into_iter().filter_map(read)
    }
}

/// The items of a list, unread, each with the address of its text.
pub(crate) struct RawItems(pub(crate) Vec<(usize, Box<RawValue>)>);

impl<'de> Deserialize<'de> for RawItems {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = Vec::<&RawValue>::deserialize(deserializer)?;
        Ok(RawItems(items.into_iter().map(|item| (item.get().as_ptr() as usize, item.to_owned())).collect()))
    }
}

/// Fields of a record that have no rule, unread, in order.
#[derive(Debug, Default)]
pub(crate) struct Rest(pub(crate) Vec<(String, Box<RawValue>)>);

/// Fields that carry no words of anyone.
const WORDLESS: [&str; 7] =
    ["id", "type", "status", "signature", "cache_control", "index", "encrypted_content"];

impl Rest {
    /// Adds a field that has a rule elsewhere, but none where it stands.
    pub(crate) fn add(&mut self, key: &str, text: String) {
        if let Ok(raw) = serde_json::value::to_raw_value(&text) {
            self.0.push((key.to_owned(), raw));
        }
    }

    /// Takes a field out, unread.
    pub(crate) fn take(&mut self, key: &str) -> Option<Box<RawValue>> {
        let at = self.0.iter().position(|(known, _)| known == key)?;
        Some(self.0.remove(at).1)
    }

    /// The same as text.
    pub(crate) fn take_text(&mut self, key: &str) -> String {
        self.take(key).filter(|raw| raw.get() != "null").map_or(String::new(), |raw| words_of(raw.get()))
    }

    /// The same as what it is; none where it is nothing of that kind.
    pub(crate) fn take_as<T: DeserializeOwned>(&mut self, key: &str) -> Option<T> {
        serde_json::from_str(self.take(key)?.get()).ok()
    }

    /// The fields as one object again.
    pub(crate) fn into_raw(self) -> Box<RawValue> {
        let fields: Vec<String> =
            self.0.iter().map(|(key, raw)| format!("{}:{}", Value::from(key.as_str()), raw.get())).collect();
        RawValue::from_string(format!("{{{}}}", fields.join(",")))
            .unwrap_or_else(|_| RawValue::NULL.to_owned())
    }

    /// What a part of a kind without a rule says, with its kind; none if it has no words. Both are counted.
    pub(crate) fn said_as(&self, kind: &str, losses: &mut Losses) -> Option<String> {
        let kind: String = kind.chars().take(40).collect();
        let words = self.words();
        if words.is_empty() {
            losses.add(&format!("part without text left out: {kind}"));
            return None;
        }
        losses.add(&format!("part without a rule kept as text: {kind}"));
        Some(format!("[{kind}] {words}"))
    }

    /// Everything that may be words, as lines `key: value`; data is told by its size.
    pub(crate) fn words(&self) -> String {
        let mut out = String::new();
        for (key, raw) in self.0.iter().filter(|(key, _)| !WORDLESS.contains(&key.as_str())) {
            let value = words_of(raw.get());
            if !matches!(value.as_str(), "" | "null" | "[]" | "{}") {
                out += &format!("{}{key}: {value}", if out.is_empty() { "" } else { "\n" });
            }
        }
        out
    }
}

/// A JSON value as text: a string without its quotes, long data by its size.
pub(crate) fn words_of(raw: &str) -> String {
    match serde_json::from_str::<Value>(raw) {
        Ok(mut value) => {
            without_data(&mut value);
            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
        }
        Err(_) => raw.to_owned(),
    }
}

/// A JSON value as JSON, long data by its size.
pub(crate) fn without_long_data(raw: &str) -> String {
    if raw.len() <= MIN_DATA {
        return raw.to_owned();
    }
    serde_json::from_str::<Value>(raw).map_or_else(
        |_| raw.to_owned(),
        |mut value| {
            without_data(&mut value);
            value.to_string()
        },
    )
}

/// Text without a blank that is longer than this, in the letters of base64, is data.
const MIN_DATA: usize = 256;

fn without_data(value: &mut Value) {
    match value {
        Value::String(text) => {
            let is_data = |b: u8| b.is_ascii_alphanumeric() || b"+/=-_".contains(&b);
            if text.len() > MIN_DATA && text.bytes().all(is_data) {
                *text = format!("[data {} bytes]", super::scalar::base64_bytes(text.len()));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_data),
        Value::Object(fields) => {
            fields.retain(|key, _| key != "encrypted_content");
            fields.values_mut().for_each(without_data);
        }
        _ => {}
    }
}

/// A key of an object, borrowed from the input where it has no escapes.
pub(crate) struct Key<'a>(pub(crate) Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(v)))
            }
            fn visit_str<E>(self, v: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(v.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// Declares a record of a log: `record! { struct Name in "label" { field: Type = "key" | "alias", } }`.
///
/// All fields are `Option`; unknown keys are counted as dropped and skipped, or with `.. rest` at the end kept there
/// unread, those behind `but` counted and skipped after all.
macro_rules! record {
    ($(
        $(#[$meta:meta])*
        struct $name:ident in $label:literal {
            $( $(#[$field_meta:meta])* $field:ident: $type:ty = $key:literal $(| $alias:literal)* ),* $(,)?
            $(.. $rest:ident $(but $($skipped:literal)|+)?)?
        }
    )+) => {$(
        $(#[$meta])*
        #[derive(Default)]
        pub(crate) struct $name {
            $( $(#[$field_meta])* pub(crate) $field: Option<$type>, )*
            $( pub(crate) $rest: $crate::logs::formats::reading::fields::Rest, )?
        }
        impl<'de> serde::de::Deserialize<'de> for $name {
            fn deserialize<D: serde::de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct RecordVisitor;
                impl<'de> serde::de::Visitor<'de> for RecordVisitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("an object (", $label, ")"))
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut record = $name::default();
                        while let Some(key) = map.next_key::<$crate::logs::formats::reading::fields::Key<'de>>()? {
                            match key.0.as_ref() {
                                $( $key $(| $alias)* => {
                                    $crate::logs::formats::reading::fields::note_mapped(concat!($label, ".", $key));
                                    record.$field = if $crate::logs::formats::reading::fields::is_lenient() {
                                        let raw = map.next_value::<&'de serde_json::value::RawValue>()?;
                                        $crate::logs::formats::reading::fields::read_odd_field(raw, concat!($label, ".", $key))
                                    } else {
                                        map.next_value()?
                                    };
                                } )*
                                $($( skipped @ ($($skipped)|+) => {
                                    $crate::logs::formats::reading::fields::note_dropped($label, skipped);
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                } )?)?
                                other => {
                                    $crate::logs::formats::reading::fields::note_dropped($label, other);
                                    let rest: Option<&mut $crate::logs::formats::reading::fields::Rest> =
                                        None $( .or(Some(&mut record.$rest)) )?;
                                    match rest {
                                        Some(rest) => rest.0.push((other.to_owned(), map.next_value()?)),
                                        None => {
                                            map.next_value::<serde::de::IgnoredAny>()?;
                                        }
                                    }
                                }
                            }
                        }
                        Ok(record)
                    }
                }
                deserializer.deserialize_map(RecordVisitor)
            }
        }
    )+};
}
pub(crate) use record;

#[cfg(test)]
mod tests {
    use super::*;

    record! {
        struct Toy in "toy" { a: String = "a" | "alpha", b: Vec<u32> = "b" }
    }

    #[test]
    fn fields_are_read_counted_and_skipped() {
        take_counts();
        let toy: Toy = serde_json::from_str(r#"{"alpha":"x","b":null,"c":{"d":[1]}}"#).unwrap();
        assert_eq!((toy.a.as_deref(), toy.b), (Some("x"), None));
        let counts = take_counts();
        assert_eq!(counts.mapped, BTreeMap::from([("toy.a".to_owned(), 1), ("toy.b".to_owned(), 1)]));
        assert_eq!(counts.dropped, BTreeMap::from([("toy.c".to_owned(), 1)]));
        assert_eq!(take_counts(), FieldCounts::default());
    }

    record! {
        struct Kept in "kept" { a: String = "a", .. rest but "copy" | "state" }
    }

    #[test]
    fn fields_without_a_rule_are_kept_as_words() {
        let data = "QUJD".repeat(100);
        let json = format!(
            r#"{{"a":"x","copy":["words"],"title":"T \u00e9","id":"i","none":null,"n":{{"k":[1,"{data}"],"encrypted_content":"e"}}}}"#
        );
        take_counts();
        let kept: Kept = serde_json::from_str(&json).unwrap();
        assert_eq!(take_counts().dropped.get("kept.copy"), Some(&1));
        assert_eq!(kept.rest.words(), "title: T \u{e9}\nn: {\"k\":[1,\"[data 300 bytes]\"]}");
    }

    #[test]
    fn many_unknown_keys_do_not_fill_memory() {
        take_counts();
        let object: BTreeMap<String, u32> = (0..1000).map(|i| (format!("k{i}"), i)).collect();
        let text = serde_json::to_string(&object).unwrap();
        serde_json::from_str::<Toy>(&text).unwrap();
        assert!(take_counts().dropped.len() <= MAX_DROPPED_KEYS + 1);
    }
}

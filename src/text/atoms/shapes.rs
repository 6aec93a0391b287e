//! The classes of characters in a chunk, and what a chunk is by its bytes alone.

// Character classes; a chunk is described by the union of its classes.
pub(super) const LOWER: u8 = 1;
pub(super) const UPPER: u8 = 2;
pub(super) const DIGIT: u8 = 4;
pub(super) const UNDER: u8 = 8;
pub(super) const DASH: u8 = 16;
pub(super) const DOT: u8 = 32;
pub(super) const SLASH: u8 = 64;
/// Non-ASCII and `@`: rare, so that they share a bit.
pub(super) const RARE: u8 = 128;
pub(super) const LETTER: u8 = LOWER | UPPER;

pub(super) static CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut b = 0;
    while b < 256 {
        class[b] = match b as u8 {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'0'..=b'9' => DIGIT,
            b'_' => UNDER,
            b'-' => DASH,
            b'.' => DOT,
            b'/' => SLASH,
            b'@' | 0x80.. => RARE,
            _ => 0,
        };
        b += 1;
    }
    class
};

pub(super) fn is_word(b: u8) -> bool {
    CLASS[b as usize] & (LETTER | DIGIT | UNDER) != 0
}

pub(super) fn classes(chunk: &[u8]) -> u8 {
    chunk.iter().fold(0, |set, &b| set | CLASS[b as usize])
}

/// `fooBar`, `FooBar`, `HTTPServer`: not `URLs`.
pub(super) fn has_hump(word: &[u8]) -> bool {
    let camel = word
        .windows(2)
        .any(|w| (w[0].is_ascii_lowercase() || w[0].is_ascii_digit()) && w[1].is_ascii_uppercase());
    let upper = word.iter().take_while(|b| b.is_ascii_uppercase()).count();
    let acronym = upper >= 2 && word[upper..].iter().take_while(|b| b.is_ascii_lowercase()).count() >= 2;
    camel || acronym
}

/// How many runs of digits there are.
pub(super) fn n_digit_runs(word: &[u8]) -> usize {
    let starts = word.windows(2).filter(|w| !w[0].is_ascii_digit() && w[1].is_ascii_digit()).count();
    starts + usize::from(word.first().is_some_and(u8::is_ascii_digit))
}

/// Pieces of time stamps, `02T15` and `123Z`, and of line references, `L36`.
pub(super) fn is_time_piece(word: &[u8]) -> bool {
    let digits = |w: &[u8]| w.iter().all(u8::is_ascii_digit);
    match word {
        [head @ .., b'Z'] if digits(head) => true,
        [b'L', tail @ ..] if digits(tail) => true,
        [a, b, b'T', c, d] => digits(&[*a, *b, *c, *d]),
        _ => false,
    }
}

/// How often neighbours are of different classes.
fn n_changes(word: &[u8]) -> usize {
    word.windows(2).filter(|w| CLASS[w[0] as usize] != CLASS[w[1] as usize]).count()
}

pub(super) fn is_hash(word: &[u8], set: u8) -> bool {
    // In capitals a short one is rather a booking than a hash.
    let shortest = if set & UPPER != 0 { 32 } else { 7 };
    if !(shortest..=64).contains(&word.len())
        || set & LETTER == LETTER
        || !word.iter().all(u8::is_ascii_hexdigit)
    {
        return false;
    }
    let letters: Vec<u8> = word.iter().filter(|b| b.is_ascii_alphabetic()).copied().collect();
    // 12e10 is a number, and a single letter in a short word is rather an id.
    !matches!(letters[..], [b'e' | b'E'])
}

/// `E0308`, `F401`, `TS2345`.
pub(super) fn is_error_code(word: &[u8]) -> bool {
    let letters = word.iter().take_while(|b| b.is_ascii_uppercase()).count();
    let (prefix, digits) = word.split_at(letters);
    let n = digits.len();
    digits.iter().all(u8::is_ascii_digit)
        && match prefix {
            b"E" | b"W" | b"F" => (3..=4).contains(&n),
            b"C" | b"R" => n == 3 || n == 4 && digits[0] == b'0',
            b"TS" | b"CS" | b"SC" | b"LNK" => n == 4,
            _ => false,
        }
}

/// `ABC-1234`, `django-10914`: words, then a number that is no step or version.
pub(super) fn is_reference(parts: &[&[u8]], n_digits: usize) -> bool {
    let names = &parts[..parts.len() - 1];
    let upper =
        names.len() == 1 && (2..=10).contains(&names[0].len()) && names[0].iter().all(u8::is_ascii_uppercase);
    let words = names
        .iter()
        .all(|p| p.len() >= 2 && p[0].is_ascii_alphabetic() && p.iter().all(u8::is_ascii_alphanumeric));
    let enough = if names.len() == 1 { 3 } else { 4 };
    upper && (2..=8).contains(&n_digits) || words && (enough..=10).contains(&n_digits)
}

pub(super) fn is_slashed_date(norm: &str) -> bool {
    let lengths: Vec<usize> = norm.split('/').map(str::len).collect();
    let numeric = norm.bytes().all(|b| b.is_ascii_digit() || b == b'/');
    numeric && matches!(lengths[..], [1..=2, 1..=2, 4] | [4, 1..=2, 1..=2])
}

/// A piece of base64 or the like.
pub(super) fn is_blob(part: &str) -> bool {
    let mixed = LETTER | DIGIT;
    part.len() > 40 && classes(part.as_bytes()) & (mixed | UNDER | DASH | DOT) == mixed
        || part.len() > 15
            && classes(part.as_bytes()) & mixed == mixed
            && n_changes(part.as_bytes()) * 2 > part.len()
}

/// `1.2.3`, `v1.2`, `1.2.3rc1`, `2.0b1`, `1.0.x`: the version without its `v`.
pub(super) fn version(chunk: &str) -> Option<&str> {
    let bare = chunk.strip_prefix(['v', 'V']).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let text = bare.unwrap_or(chunk);
    let mut parts = text.split('.');
    let numeric = |p: &str| !p.is_empty() && p.len() <= 8 && p.bytes().all(|b| b.is_ascii_digit());
    let (first, second) = (parts.next()?, parts.next()?);
    if !numeric(first) || second.is_empty() {
        return None;
    }
    let rest: Vec<&str> = parts.collect();
    let digits = second.bytes().take_while(u8::is_ascii_digit).count();
    let tail = second[digits..].trim_start_matches('-');
    let is_tail = |t: &str| {
        ["a", "b", "rc", "alpha", "beta", "dev", "post", "pre"]
            .iter()
            .any(|k| t.strip_prefix(k).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit() || b == b'-')))
    };
    let ok = if rest.is_empty() {
        digits > 0 && (bare.is_some() && tail.is_empty() || is_tail(tail))
    } else {
        let third = rest[0];
        numeric(second) && (third.starts_with(|c: char| c.is_ascii_digit()) || third == "x" || is_tail(third))
            && rest.iter().all(|p| !p.is_empty() && p.len() <= 24 && !p.contains('_'))
            // `1.2.3seconds` or `10.5.txt` are something else.
            && !rest.iter().any(|p| p.len() > 2 && p.bytes().all(|b| b.is_ascii_alphabetic()) && !is_tail(p))
    };
    ok.then_some(text)
}

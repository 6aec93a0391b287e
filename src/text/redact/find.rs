//! Where secrets and personal data stand in a text.
//!
//! One pass looks for the keywords of all rules; a rule is tried in a window around each of its own. Windows that touch become one,
//! so that no rule looks at a byte more than a few times: linear in the text.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::rules::{Check, Finding, GENERAL, RULES, Rule, Rules};

/// How far before and behind a keyword a rule looks. What goes on at the end of a window is looked at further.
const BEFORE: usize = 256;
const BEHIND: usize = 16 << 10;

/// Something to redact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) range: Range<usize>,
    /// Number of the rule.
    pub(super) rule: usize,
}

/// All that is found in a text, in order; none overlaps another.
pub(super) fn find(text: &str) -> Vec<Found> {
    let rules = &*RULES;
    let flat = flat(text);
    let mut found = Vec::new();
    for (rule, windows) in windows(rules, text).into_iter().enumerate() {
        // Names may begin like an escape: `\Users\nina`.
        let bytes = if rules.all[rule].is_personal { text.as_bytes() } else { &*flat };
        for window in windows {
            search(&rules.all[rule], rule, bytes, window, &mut found);
        }
    }
    for &rule in &rules.everywhere {
        search(&rules.all[rule], rule, text.as_bytes(), 0..text.len(), &mut found);
    }
    for one in &mut found {
        one.range = whole_characters(text, one.range.clone());
    }
    // A secret that a rule knows by its form comes first, then what is personal: an address may begin with a password.
    // Last comes what only looks like a key.
    found.sort_by_key(|one| {
        let rank = 2 * u8::from(is_general(one.rule)) + u8::from(rules.all[one.rule].is_personal);
        (rank, one.range.start, std::cmp::Reverse(one.range.end))
    });
    let mut kept: Vec<Found> = Vec::with_capacity(found.len());
    for one in &found {
        let at = kept.partition_point(|k| k.range.start < one.range.start);
        let is_free = (at == 0 || kept[at - 1].range.end <= one.range.start)
            && kept.get(at).is_none_or(|next| one.range.end <= next.range.start);
        if is_free && !one.range.is_empty() {
            kept.insert(at, one.clone());
        }
    }
    kept
}

/// Whether a rule finds what only looks like a key.
pub(super) fn is_general(rule: usize) -> bool {
    RULES.all[rule].id == GENERAL
}

/// Where each rule is to look, by rule.
fn windows(rules: &Rules, text: &str) -> Vec<Vec<Range<usize>>> {
    let mut windows: Vec<Vec<Range<usize>>> = vec![Vec::new(); rules.all.len()];
    for hit in rules.keywords.find_overlapping_iter(text) {
        let window = hit.start().saturating_sub(BEFORE)..(hit.end() + BEHIND).min(text.len());
        for &rule in &rules.wanted_by[hit.pattern().as_usize()] {
            match windows[rule].last_mut() {
                // Hits come by their ends; a longer one may begin before.
                Some(last) if window.start <= last.end => {
                    last.end = last.end.max(window.end);
                    last.start = last.start.min(window.start);
                }
                _ => windows[rule].push(window.clone()),
            }
        }
    }
    windows
}

/// Tries a rule in a window.
fn search(rule: &Rule, number: usize, bytes: &[u8], window: Range<usize>, found: &mut Vec<Found>) {
    let regex = rule.regex();
    let (mut at, mut end) = (window.start, window.end);
    while at <= end {
        let Some(whole) = regex.find_at(&bytes[..end], at) else { return };
        if whole.end() == end && end < bytes.len() {
            // It may go on behind the window.
            end = bytes.len().min(end + (end - whole.start()).max(BEHIND));
            at = whole.start();
            continue;
        }
        let range = match regex.captures_len() {
            1 => Some(whole.range()),
            _ => regex.captures_at(&bytes[..end], whole.start()).and_then(|groups| match rule.group {
                Some(group) => groups.get(group).map(|group| group.range()),
                None => {
                    let first = groups.iter().skip(1).flatten().find(|group| !group.is_empty());
                    Some(first.map_or(whole.range(), |group| group.range()))
                }
            }),
        };
        if let Some(range) = range
            && is_one(rule, bytes, whole.range(), range.clone())
        {
            found.push(Found { range, rule: number });
        }
        at = if whole.is_empty() { whole.end() + 1 } else { whole.end() };
    }
}

/// Whether what a rule found is one.
fn is_one(rule: &Rule, bytes: &[u8], whole: Range<usize>, secret: Range<usize>) -> bool {
    let is_checked = match rule.check {
        None => true,
        Some(Check::Alone) => is_alone(bytes, &secret),
        Some(Check::Card) => {
            is_alone(bytes, &secret) && is_card(&bytes[secret.clone()]) && !is_in_row(bytes, &secret)
        }
    };
    if !is_checked {
        return false;
    }
    // A line may be a whole file.
    let (from, to) = (whole.start.saturating_sub(BEFORE), (whole.end + BEFORE).min(bytes.len()));
    let line_start = memchr::memrchr(b'\n', &bytes[from..whole.start]).map_or(from, |at| from + at + 1);
    let line_end = memchr::memchr(b'\n', &bytes[whole.end..to]).map_or(to, |at| whole.end + at);
    let line = &bytes[line_start..line_end];
    !rule.allows(&Finding { line, whole: &bytes[whole], secret: &bytes[secret] })
}

/// Whether a number stands alone: no part of a longer one, of a version or of a word.
fn is_alone(bytes: &[u8], range: &Range<usize>) -> bool {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let is_free = |next: Option<&u8>, further: Option<&u8>| match next {
        None => true,
        // A point or dash joins if a word goes on behind it.
        Some(b'.' | b'-' | b'+') => !further.is_some_and(is_part),
        Some(b) => !is_part(b),
    };
    let before = |n: usize| range.start.checked_sub(n).and_then(|at| bytes.get(at));
    is_free(before(1), before(2)) && is_free(bytes.get(range.end), bytes.get(range.end + 1))
}

/// Whether digits are those of a card: their last one checks the others (Luhn), and they are no simple row.
fn is_card(bytes: &[u8]) -> bool {
    let digits: Vec<u32> = bytes.iter().filter(|b| b.is_ascii_digit()).map(|b| u32::from(b - b'0')).collect();
    let twice = |n: u32| if n > 4 { 2 * n - 9 } else { 2 * n };
    let sum: u32 =
        digits.iter().rev().enumerate().map(|(i, n)| if i % 2 == 1 { twice(*n) } else { *n }).sum();
    let n_kinds = (0..10).filter(|d| digits.contains(d)).count();
    sum.is_multiple_of(10) && n_kinds > 2
}

/// Whether numbers stand in a row with others, as the points of a drawing do: `Q 2772 3750 2511 3984 2250 4218`.
fn is_in_row(bytes: &[u8], range: &Range<usize>) -> bool {
    let before = bytes[..range.start].strip_suffix(b" ");
    let follows = |n: usize| before.and_then(|bytes| bytes.len().checked_sub(n)).map(|at| bytes[at]);
    let is_letter = follows(1).is_some_and(|b| b.is_ascii_uppercase())
        && !follows(2).is_some_and(|b| b.is_ascii_alphanumeric());
    let behind = bytes[range.end..].strip_prefix(b" ").and_then(|bytes| bytes.get(..4));
    is_letter
        || follows(1).is_some_and(|b| b.is_ascii_digit())
        || behind.is_some_and(|b| b.iter().all(u8::is_ascii_digit))
}

/// The text with white space in the place of escapes, as JSON, code, addresses and terminals have them: a word begins behind `\n`,
/// `%3D` and a colour. All else keeps its place.
pub(super) fn flat(text: &str) -> Cow<'_, [u8]> {
    let mut flat = Cow::Borrowed(text.as_bytes());
    for escape in ESCAPE.find_iter(text.as_bytes()) {
        let stands_for = match escape.as_bytes() {
            [b'\\', b'n' | b'r'] => b'\n',
            [b'\\', b't'] => b'\t',
            [b'\\', b'"'] => b'"',
            // A backslash that is escaped itself, and what is no sign between words.
            [b'\\', _] => continue,
            [b'%', digits @ ..] => match std::str::from_utf8(digits).map(|hex| u8::from_str_radix(hex, 16)) {
                Ok(Ok(byte)) if b"\t\n\r \"&',:;=".contains(&byte) => byte,
                _ => continue,
            },
            _ => b' ',
        };
        let flat = flat.to_mut();
        flat[escape.range()].fill(b' ');
        flat[escape.end() - 1] = stands_for;
    }
    flat
}

/// Colours of terminals, escapes of JSON and code, and those of addresses.
static ESCAPE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern =
        r"(?-u)(?:\x1b|\\(?:u001[bB]|x1[bB]|033|e))\[[0-9;:?]*[A-Za-z]|\\[\x00-\x7f]|%[0-9A-Fa-f]{2}";
    Regex::new(pattern).expect("the expression is in order")
});

/// A range that cuts neither a character nor an escape.
fn whole_characters(text: &str, mut range: Range<usize>) -> Range<usize> {
    while !text.is_char_boundary(range.start) {
        range.start -= 1;
    }
    while !text.is_char_boundary(range.end) {
        range.end += 1;
    }
    let n_before = text.as_bytes()[..range.start].iter().rev().take_while(|b| **b == b'\\').count();
    if n_before % 2 == 1 && text.as_bytes().get(range.start).is_some_and(|b| b"nrtbf\"/".contains(b)) {
        range.start += 1;
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(&str, &str)> {
        find(text).into_iter().map(|one| (RULES.all[one.rule].id.as_str(), &text[one.range])).collect()
    }

    #[test]
    fn personal_data_are_found_and_what_is_nobodys_is_not() {
        assert_eq!(
            found("mail nina.k+x@firm.co.uk, call +49 170 1234567 or (415) 867-5309"),
            [("email", "nina.k+x@firm.co.uk"), ("phone", "+49 170 1234567"), ("phone", "(415) 867-5309")]
        );
        assert_eq!(
            found("/home/nina/x.rs C:\\Users\\nina\\y C:\\\\Users\\\\nina\\\\z /Users/Nina.K/a"),
            [
                ("home", "/home/nina"),
                ("home", "C:\\Users\\nina"),
                ("home", "C:\\\\Users\\\\nina"),
                ("home", "/Users/Nina.K")
            ]
        );
        assert_eq!(
            found("ssh db-3.prod.internal, 10.20.30.41:5432 and 10.20.30.42."),
            [("host", "db-3.prod.internal"), ("address", "10.20.30.41"), ("address", "10.20.30.42")]
        );
        // A number of few digits is one of tests.
        assert_eq!(
            found("card 4111 1111 1111 1111 and 4539-1488-0343-6467, not 4539148803436468"),
            [("card", "4539-1488-0343-6467")]
        );
        for nothing in [
            "git@github.com:a/b.git x@example.com icon@2x.png @app.route a@b",
            "566-@pytest.mark.parametrize 53-@mock.patch.object",
            "/users/api.ts https://api.github.com/users/nina https://firm.dev/home/whats-new /home/20200813005707",
            "Q 4539 1488 0343 6467 2250 4218 L 1 2 and 1000 4539 1488 0343 6467",
            "/home/user/x /Users/runner/y /home/ ~/x",
            "127.0.0.1 0.0.0.0 255.255.255.0 192.0.2.7 1.2.3.4 v10.2.3.44 10.2.3.44.5 10.2.3.44-rc1",
            "self.local settings.local py.path.local(x) com.sun.internal last.Local().Format 2024-01-31 12:00:00.123456 1234567890123456 build 415-867-5309123",
        ] {
            assert_eq!(found(nothing), [], "{nothing}");
        }
    }

    #[test]
    fn addresses_of_version_6_and_names_of_folders_are_found() {
        assert_eq!(
            found(
                "ping 2405:201:6016:4b79:b875:32c2:435f:d13d, fe80::1ff:fe23:4567:890a and 2a02:8108:96c0::1."
            ),
            [
                ("address", "2405:201:6016:4b79:b875:32c2:435f:d13d"),
                ("address", "fe80::1ff:fe23:4567:890a"),
                ("address", "2a02:8108:96c0::1")
            ]
        );
        assert_eq!(
            found("ls /p/-Users-nina-app-x C--Users-nina-app '-home-nina_k-a' s/--Users-nina-b"),
            [
                ("home", "-Users-nina"),
                ("home", "C--Users-nina"),
                ("home", "-home-nina_k"),
                ("home", "--Users-nina")
            ]
        );
        for nothing in [
            "2389::setting 2386::class std::fs::read fd::be 2001:db8::1 2001:4860:4860::8888 12:30:45 2024:01:02:03",
            "my-home-page-x --home-dir-x -home-dir -Users-runner-x a-Users-b-c 260:1 de:ad:be:ef:00:01",
        ] {
            assert_eq!(found(nothing), [], "{nothing}");
        }
    }

    #[test]
    fn headers_and_passwords_in_prose_are_found() {
        for (text, secret) in [
            ("Authorization: Bearer a8Kd9sLq02mXzPw7Tt1B", "a8Kd9sLq02mXzPw7Tt1B"),
            (r#"{\"authorization\": \"Basic bmluYTprRDgzbmZRejcx\"}"#, "bmluYTprRDgzbmZRejcx"),
            ("-H 'X-Api-Key: 9f8e7d6c5b4a39281706'", "9f8e7d6c5b4a39281706"),
            ("The password is kD83!nf#Qz, do not tell.", "kD83!nf#Qz"),
            ("password for db-1 is kD83nfQz71", "kD83nfQz71"),
            ("postgres://app:kD83.nf-Qz@db.firm.dev/main", "kD83.nf-Qz"),
            ("PGPASSWORD=kD83%nf-Qz psql", "kD83%nf-Qz"),
            ("mysql -u root -p'kD83!nf#Qz' main", "kD83!nf#Qz"),
            ("GET /cb?token=a8Kd9sLq02mXzPw7Tt1B&x=1 200", "a8Kd9sLq02mXzPw7Tt1B"),
            (
                "it is\n4312237104:AAVPK4x7StwuU37Faxl_oLB07210G6kvm-R\nnow",
                "4312237104:AAVPK4x7StwuU37Faxl_oLB07210G6kvm-R",
            ),
        ] {
            let told = found(text);
            assert!(told.iter().any(|(_, found)| *found == secret), "{text}: {told:?}");
        }
        for nothing in [
            "Authorization: Bearer $TOKEN, Bearer YOUR_API_KEY_HERE_1, Authorization: settings.auth_header_value",
            "password is required. password: str = Field(...) password = config.db1.password password: ********",
            "The password is at least 12345678 long, password=os.environ['PW1'] pwd: /srv/app1/x",
            "?key=some-long-name-of-a-page&token=YOUR_API_TOKEN_HERE&token={token} mysql -u root -p main -papp_password",
            "postgres://postgres:postgres@localhost/x redis://:$PASS@h https://a.b/c:d@e",
        ] {
            assert_eq!(found(nothing), [], "{nothing}");
        }
    }

    #[test]
    fn an_escape_is_no_part_of_what_stands_behind_it() {
        let key = "AKIAQ7KTZ3VXD5PLW2HN";
        let text = format!(r#"{{"command":"x\n{key}\nnina@firm.de \"nina@firm.de\""}}"#);
        assert_eq!(
            found(&text),
            [("aws-access-token", key), ("email", "nina@firm.de"), ("email", "nina@firm.de")]
        );
    }

    /// Keys of gitleaks' kinds and of ours.
    const KEYS: [&str; 6] = [
        "sk_test_4eC39HqLyjWDarjtT1zdp7dcXw2q",
        "eyJhbGciOiJIUzI1NiJ9x.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
        "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",
        "ghp_rO800YiMsId5X2VEwVz7bJKzjF2msrYZTWPU",
        "dop_v1_dc220d8703bc95d4830c1e6b75b685c5800b6f608a8251ad4b21ef652147dcb6",
        "AKIAQ7KTZ3VXD5PLW2HN",
    ];

    #[test]
    fn a_key_is_found_whatever_stands_around_it() {
        for key in KEYS {
            for behind in [
                "", ".", ",", ")", ":", "]", "<", "&", "|", "}", "@", "*", "%", "#", "?", ">", "…", "\x1b[0m",
            ] {
                for before in
                    ["", " ", "(", "=", "\"", ">", ":", "\x1b[32m", "\\u001b[1;32m", "%3D", "%20", "\\n"]
                {
                    let text = format!("it said{before}{key}{behind} then");
                    let text = if before.is_empty() { text[7..].to_owned() } else { text };
                    let told = found(&text);
                    assert!(told.iter().any(|(_, found)| *found == key), "{text:?}: {told:?}");
                }
            }
        }
    }

    #[test]
    fn what_makers_and_tools_write_is_found() {
        let pem = |end: &str| format!("-----BEGIN RSA PRIVATE KEY-----{end}");
        let lines = ["x7HkQ2/9", "Lm2+Wq8z", "Zt51PvRt"].map(|part| part.repeat(8));
        let (cut, numbered) = (
            pem(&format!("\n{}", lines.join("\n"))),
            pem(&format!("\n     2\t{}\n     3\t{}", lines[0], lines[1])),
        );
        for (text, secret) in [
            (format!("$ head -n 4 id_rsa\n{cut}\n$ ls"), &*cut),
            (format!("     1\t{numbered}\n$ ls"), &*numbered),
            (
                "https://api.telegram.org/bot4312237104:AAVPK4x7StwuU37Faxl_oLB07210G6kvm-R/getMe".to_owned(),
                "4312237104:AAVPK4x7StwuU37Faxl_oLB07210G6kvm-R",
            ),
            (
                "SECRET_KEY = 'django-insecure-8m#x2(k_4q!z$w7)p@t5^r9&y1*u3+e6-a0'".to_owned(),
                "django-insecure-8m#x2(k_4q!z$w7)p@t5^r9&y1*u3+e6-a0",
            ),
            ("machine api.firm.dev login nina password Ug8xHEgtoVsr7a".to_owned(), "Ug8xHEgtoVsr7a"),
            ("sshpass -p mZ7dW-29FIRM1 ssh x@h".to_owned(), "mZ7dW-29FIRM1"),
            ("<password>BN94k_5jW0RtS</password>".to_owned(), "BN94k_5jW0RtS"),
            ("--password Ryu98_YCIazph --x".to_owned(), "Ryu98_YCIazph"),
            ("ADMIN_PASS=Yc4QV_0UWmAIx run".to_owned(), "Yc4QV_0UWmAIx"),
            (
                "Cookie: theme=dark; sessionid=4fhWtYtDSu2aZEeXB3IeFtpw1zba; a=b".to_owned(),
                "4fhWtYtDSu2aZEeXB3IeFtpw1zba",
            ),
            (
                "https://x.blob.core.windows.net/c?sp=r&sig=RFw3uj03InS1Os5vmIjaf0u6Fph3%2BVp%3D".to_owned(),
                "RFw3uj03InS1Os5vmIjaf0u6Fph3%2BVp",
            ),
            (
                "token = \"glpat-Nbay38bSByfy_T9Z9c9qrcIe48W.01.hudafk315\"".to_owned(),
                "glpat-Nbay38bSByfy_T9Z9c9qrcIe48W.01.hudafk315",
            ),
            ("postgres://app:p%40ss%23w0rd81@db.firm.dev/x".to_owned(), "p%40ss%23w0rd81"),
            (
                "an j\u{fc}rgen.m\u{fc}ller@b\u{fc}cher.de senden".to_owned(),
                "j\u{fc}rgen.m\u{fc}ller@b\u{fc}cher.de",
            ),
            ("?mail=nina%40posteo.de".to_owned(), "nina%40posteo.de"),
            (
                "so xoxe.xoxp-1-Mi0yLTk4NzY1NDMyMTA5ODc2NTQzMjEwLTk4NzY1 it is".to_owned(),
                "xoxe.xoxp-1-Mi0yLTk4NzY1NDMyMTA5ODc2NTQzMjEwLTk4NzY1",
            ),
            ("DD_API_KEY=0b0efd707f4859070b0efd707f485907".to_owned(), "0b0efd707f4859070b0efd707f485907"),
            (
                "https://x.io/?aws_secret_access_key=K4Z4V6%2Bwx1u6Zrm%2FgdHVon0Pgf4qhCRdmz".to_owned(),
                "K4Z4V6%2Bwx1u6Zrm%2FgdHVon0Pgf4qhCRdmz",
            ),
            (
                "I use fireworks, fw_slrv1GL5MPT3xm2nfmD9al, as you said".to_owned(),
                "fw_slrv1GL5MPT3xm2nfmD9al",
            ),
            ("and sk-71ebb031f8bbba11cdea42b707be1a39.".to_owned(), "sk-71ebb031f8bbba11cdea42b707be1a39"),
            ("vscode://file/%2Fhome%2Fnkowalska%2Fx".to_owned(), "%2Fhome%2Fnkowalska"),
        ] {
            let told = found(&text);
            assert!(told.iter().any(|(_, found)| *found == secret), "{text}: {told:?}");
        }
        for nothing in [
            "usage: tool --password PASSWORD --pass <pass1234> --password=$DB_PASS1 --password config.db1",
            "SECRET_KEY = os.environ['SECRET_KEY_1'] SECRET_KEY = 'change-me-before-you-deploy-1'",
            "login with your password 12345678 <password>changeme1</password> cio_is_no_key",
            "-----BEGIN PRIVATE KEY----- is how such a file begins, and so on with much text behind it",
        ] {
            assert_eq!(found(nothing), [], "{nothing}");
        }
    }

    /// If each keyword looked through all of the text, this would not end today.
    #[test]
    fn keywords_without_end_are_no_secret() {
        let text = "api_key: secret token password key ".repeat(60_000);
        assert_eq!(find(&text), []);
    }

    #[test]
    fn what_goes_on_behind_a_window_is_found_whole() {
        let text = format!(
            "token {}.{}.{} end",
            "eyJhbGciOiJIUzI1NiJ9",
            "eyJzdWIiOiIxMjM0NTY3ODkwIn0",
            "x7Hk".repeat(20)
        );
        let (number, rule) = RULES.all.iter().enumerate().find(|(_, rule)| rule.id == "jwt").unwrap();
        let mut found = Vec::new();
        search(rule, number, text.as_bytes(), 0..70, &mut found);
        assert_eq!(&text[found[0].range.clone()], text.split(' ').nth(1).unwrap());
    }
}

//! What is found, what is left alone, and what stands around it.

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
        found("ping 2405:201:6016:4b79:b875:32c2:435f:d13d, fe80::1ff:fe23:4567:890a and 2a02:8108:96c0::1."),
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

/// A name that says secret, and a value wherever it stands.
#[test]
fn values_that_are_named_as_secrets_are_found() {
    let (password, key) = ("Ja8oVIfKt8L5y", "bwhEs5Tu9jZzT9wDPPRcQ97pqQj3aMeqvOPIgqr3");
    for text in [
        "- name: DB_PASSWORD\n  value: {p}\n",
        r#"[{"name": "DB_PASSWORD", "value": "{p}"}]"#,
        r#"<property name="hibernate.connection.password" value="{p}"/>"#,
        r#"<add key="COHERE_API_KEY" value="{k}" />"#,
        "define('DB_PASSWORD', '{p}');",
        r#"{"mysqlRootPassword": "{p}", "x": 1}"#,
        r#"{"s": "{\"mysqlRootPassword\": \"{p}\", \"x\": 1}"}"#,
        r#"{"login":"nina","pass":"{p}"}"#,
        "ldap_bind_pw = \"{p}\"",
        "psql --db-password {p} --verbose",
        "gpg --passphrase {p} -d x",
        "tool --api-key {k} -v",
        "gh secret set COHERE_API_KEY --body \"{k}\"",
        "aws configure set aws_secret_access_key {k}",
        "CONTENTFUL_PAT={k}",
        "Passwort: {p}",
        "config: {Addr::80 PostgresPassword:{p} Debug:false}",
    ] {
        let secret = if text.contains("{p}") { password } else { key };
        let text = text.replace("{p}", password).replace("{k}", key);
        let told = found(&text);
        assert!(told.iter().any(|(_, found)| *found == secret), "{text}: {told:?}");
    }
    for (text, secret) in [
        ("FAL_KEY=50a41a96-310b-4d2c-6832:3106d407485071", "50a41a96-310b-4d2c-6832:3106d407485071"),
        ("DB_PASSWORD='pa$s!Wo0rd9'", "pa$s!Wo0rd9"),
        ("password='Kd83 nfQz719Xa'", "Kd83 nfQz719Xa"),
        ("postgres://app:Kd83/nfQ+z71=9Xa@db.firm.de/x", "Kd83/nfQ+z71=9Xa"),
        ("postgres://app:pa%24s@word1@db.firm.de/x", "pa%24s@word1"),
        ("mongodb://u:p4ss$word99@h1,h2/db", "p4ss$word99"),
        ("Authorization: Bearer access_token$production$0by4us9h", "access_token$production$0by4us9h"),
        (
            "T_TOKEN=AAAAFv43BPvVrkfyxKBoKO5Jqx%3DZo2hKPvQ2HI5j6",
            "AAAAFv43BPvVrkfyxKBoKO5Jqx%3DZo2hKPvQ2HI5j6",
        ),
        (
            "$2b$12$EixZaYVK1fsbw1ZfbX3OXePaWxn96p36WQoeG6Lruj3vjPGga31lW",
            "$2b$12$EixZaYVK1fsbw1ZfbX3OXePaWxn96p36WQoeG6Lruj3vjPGga31lW",
        ),
    ] {
        let told = found(text);
        assert!(told.iter().any(|(_, found)| *found == secret), "{text}: {told:?}");
    }
    for nothing in [
        "print(f\"PASS: aoi=100, n=1: got 0.0\") PASS: 12 tests, 3 skipped",
        "max_tokens=4096 cache_key = f'user_{id}_v2' primary_key: true, sort-key: created_at",
        "set password to the value, set token value 12, --key path/to/key1.pem --token $TOKEN1 --password-stdin",
        "{\"name\": \"token\", \"value\": \"${API_TOKEN}\"} name: SECRET_1 value: \"see vault\"",
        "http://localhost:3000/users/@me https://unpkg.com:443/@scope/pkg@1.2.3 redis://:$PASS@h",
        "name=\"token\" value=\"see_vault_v2\" profile_key = 'public_profile_v3_desktop'",
        "password = hash_password_v2(raw1) token = tokens_by_user_1234567890[0] /home/site/wwwroot",
        "monkeypatch: tests/x1.py compat=py3 pattern='a1b2c3' passed=12 keyword: abc123def",
    ] {
        assert_eq!(found(nothing), [], "{nothing}");
    }
}

/// Between a name and its value stand types, subscripts, columns and tags; programs take some without a name.
#[test]
fn values_are_found_in_every_form_of_a_setting() {
    let (password, key) = ("Ja8oVIfKt8L5y", "bwhEs5Tu9jZzT9wDPPRcQ97pqQj3aMeqvOPIgqr3");
    for text in [
        "const DD_API_KEY: &str = \"{k}\";",
        "export const ddApiKey: string = '{k}';",
        "    session_secret: str = \"{k}\"",
        "os.environ[\"SESSION_SECRET\"] = \"{k}\"",
        "{\"code\": \"os.environ[\\\"SESSION_SECRET\\\"] = \\\"{k}\\\"\"}",
        "config[\"password\"] = \"{p}\"",
        "Config { db_password: Some(\"{p}\"), n: 1 }",
        "ENV HCLOUD_TOKEN {k}",
        "set -gx NEXTAUTH_SECRET {k}",
        "setx WEAVIATE_API_KEY \"{k}\"",
        "Key\tValue\nftp_password    {p}\n",
        "| COOKIE_SECRET | {k} |",
        "\u{2551} CODECOV_TOKEN \u{2502} {k} \u{2551}",
        "<smtpPassword>{p}</smtpPassword>",
        "<key>ARK_API_KEY</key>\n<string>{k}</string>",
        "mysql_pwd                 = \"{p}\"",
        "the gitea token is {k}, as I said",
        "const t = process.env.WISE_TOKEN || '{k}'",
        "client.setApiKey(\"{k}\")",
        "docker login -u nina -p {p} r.firm.dev",
        "redis-cli -h r -a {p} ping",
        "mongosh -u a -p {p}",
        "ldapsearch -x -D cn=a -w {p}",
        "htpasswd -b f nina {p}",
        "openssl rsa -passin pass:{p}",
        "echo {p} | sudo -S id",
        "echo 'nina:{p}' | chpasswd",
        "http -a nina:{p} firm.dev",
        "smbclient //h/s -U nina%{p}",
        "sqlplus app/{p}@db",
        "ALTER USER nina WITH PASSWORD '{p}';",
        "CREATE USER a IDENTIFIED BY '{p}'",
        "requests.get(u, auth=(\"nina\", \"{p}\"))",
        "db.firm.de:5432:*:nina:{p}",
        "{\"auths\": {\"r\": {\"auth\": \"{k}\"}}}",
        "//npm.firm.dev/:_auth={k}",
        "https://open.feishu.cn/open-apis/bot/v2/hook/{k}",
    ] {
        let secret = if text.contains("{p}") { password } else { key };
        let text = text.replace("{p}", password).replace("{k}", key);
        let told = found(&text);
        assert!(told.iter().any(|(_, found)| *found == secret), "{text}: {told:?}");
    }
    for (text, secret) in [
        ("PASSWORD=correcthorsebattery", "correcthorsebattery"),
        ("{\"password\":\"correcthorsebattery\"}", "correcthorsebattery"),
        ("export PGPASSWORD=hunterzwei", "hunterzwei"),
        ("otpauth://totp/Firm:nina?secret=JBSWYDPEHPKJLMNO&issuer=Firm", "JBSWYDPEHPKJLMNO"),
        (
            "ZHIPUAI_API_KEY=71ebb031f8bbba11cdea42b707be1a39.hYBIhAEqZsiFAt8p",
            "71ebb031f8bbba11cdea42b707be1a39.hYBIhAEqZsiFAt8p",
        ),
    ] {
        let told = found(text);
        assert!(told.iter().any(|(_, found)| *found == secret), "{text}: {told:?}");
    }
    for nothing in [
        "PASSWORD=passwordpassword PASSWORD=yourpassword {\"password\": \"passwordHash\"}",
        "{\"password\": \"Wachtwoord\", \"passwordLabel\": \"Kennwort\"} password=correcthorsebattery",
        "| token | the kind of it | docker run -p 8080:80 x1 redis-cli -a $PASS1 login password",
        "PublicKeyToken=b77a5c561934e089 s3_key = \"datasets/2024/run-17/part-0003.parquet\"",
        "cache-key: v2-deps-linux-3f2a9c81 primary_key = \"01HQZX3V5T8K2M9P4R7W\" cacheKey: 'v2Deps9Linux3f2a9c81'",
        "sort_key=\"created_at#2024-01-01\" citation_key: vaswani2017attention_is_all",
        "the token is expired_since_2024_11_28 and echo done | sudo -S id",
        "HEX_PAT = \"[0-9A-Fa-f]{1,4}\" LS32_PAT = \"(?:{hex}:{hex}|{ipv4})\"",
    ] {
        assert_eq!(found(nothing), [], "{nothing}");
    }
}

/// What was redacted tells nothing of what stands behind it, and a letter of an escape is no name.
#[test]
fn placeholders_are_no_names_of_keys() {
    for nothing in [
        "API_KEY=<generic-api-key-1>\n2f8a91bc04d17e55a1b2 fix: parser",
        "SECRET_KEY=<generic-api-key-1> req_7Hk29dPq1Zx4 ok",
        "{\"code\": \"x\\n\\n@app.get(1)\"}",
        "\\n@app.get(\\\"/health\\\")",
    ] {
        assert_eq!(found(nothing), [], "{nothing}");
    }
    let told = found("<generic-api-key-1>\nAPI_KEY=Zk39dkqPw0Lm27Xc81Vb");
    assert_eq!(told.iter().map(|(_, found)| *found).collect::<Vec<_>>(), ["Zk39dkqPw0Lm27Xc81Vb"]);
}

#[test]
fn a_secret_is_redacted_whole_and_an_escape_stays() {
    let teams = "https://firm.webhook.office.com/webhookb2/d1fa9c3d-420a-1df0-a7a7-98e48a34c164@507dfa7a-c14f-2129-4083-a84853660ee6/IncomingWebhook/de94506b554e2c9765f09b731099e5b6/f6629c0e-6832-f586-1139-7238095ca01e";
    assert_eq!(found(&format!("see {teams} now")), [("microsoft-teams-webhook", teams)]);
    let jwt = KEYS[1];
    let inner = serde_json::json!({ "env": { "t": jwt, "x": 1 } }).to_string();
    let outer = serde_json::json!({ "stdout": serde_json::json!({ "o": inner }).to_string() }).to_string();
    assert_eq!(found(&outer), [("jwt", jwt)]);
    for home in ["C:/Users/Nina Kowalska", "C:\\Users\\Nina Kowalska"] {
        assert_eq!(found(&format!("\"{home}/Desktop\"")), [("home", home)]);
    }
}

#[test]
fn versions_are_no_addresses() {
    for version in [
        "nvidia-cublas-cu12==12.1.3.10",
        "x>=10.2.3.44,<11",
        "Chrome/120.0.60.109 Safari",
        "\"version\": \"10.0.190.41\"",
        "Version 10.0.190.41",
        "ver=10.2.3.44",
        "\"electron\": \"^10.2.3.44\"",
    ] {
        assert_eq!(found(version), [], "{version}");
    }
    for address in [
        "host=10.2.3.44",
        "http://10.2.3.44/x",
        "ssh nina@10.2.3.44",
        "server 10.2.3.44:80",
        "a == 1, 10.2.3.44",
        "over 10.2.3.44",
    ] {
        assert!(found(address).contains(&("address", "10.2.3.44")), "{address}: {:?}", found(address));
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
        for behind in
            ["", ".", ",", ")", ":", "]", "<", "&", "|", "}", "@", "*", "%", "#", "?", ">", "…", "\x1b[0m"]
        {
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
            "RFw3uj03InS1Os5vmIjaf0u6Fph3%2BVp%3D",
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
        ("I use fireworks, fw_slrv1GL5MPT3xm2nfmD9al, as you said".to_owned(), "fw_slrv1GL5MPT3xm2nfmD9al"),
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

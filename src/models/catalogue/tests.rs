//! The built-in models, and what is told of wrong files.

use super::*;
use crate::models::server::Kind;

const MODEL: &str = "[[models]]\nname = \"own\"\nroles = [\"generator\"]\ncontext = 4096\nbytes = 5\nsha256 = \"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\"\n";

fn over(text: &str) -> anyhow::Result<Catalogue> {
    let mut catalogue = Catalogue::load(None).unwrap();
    file::add(&mut catalogue, "own.toml", text, Path::new("/models"))?;
    Ok(catalogue)
}

#[test]
fn the_built_in_file_is_sound() {
    let catalogue = Catalogue::load(None).unwrap();
    let default = catalogue.set(DEFAULT_SET).unwrap();
    for role in [Role::Scorer, Role::Generator, Role::Embedder] {
        assert!(default.model(role).is_some(), "{role:?}");
    }
    // Small enough for a laptop, free to use, and each with a source that needs pip alone.
    let all = catalogue.pick(&[DEFAULT_SET.to_owned(), "better".to_owned()]).unwrap();
    assert!(all.iter().all(|m| catalogue.entry(m.name()).unwrap().licence == "Apache-2.0"));
    let of = |name: &str| catalogue.entry(name).unwrap();
    let picked = catalogue.pick(&[DEFAULT_SET.to_owned()]).unwrap();
    let size: u64 = picked.iter().map(|m| of(m.name()).bytes).sum();
    assert!(size < 700_000_000, "{size}");
    for entry in &catalogue.entries {
        assert!(is_by_pip(entry), "{}", entry.name);
    }
    assert_eq!(catalogue.sets_of("smollm2-135m"), ["default", "better"]);
    assert!(catalogue.sets_of("gemma-3-270m").is_empty());
}

fn is_by_pip(entry: &Entry) -> bool {
    let part = |p: &Part| match p {
        Part::Package { .. } => true,
        Part::Model(model) => is_by_pip(model),
        _ => false,
    };
    entry.origins.iter().any(|o| o.parts.iter().all(part))
}

#[test]
fn a_file_adds_and_overrides() {
    let text = format!(
        "{MODEL}sources = [{{ path = \"x.gguf\" }}, {{ hub = \"a/b\", file = \"c/d.gguf\" }}]\n[sets.default]\ngenerator = \"own\"\n"
    );
    let catalogue = over(&text).unwrap();
    let own = catalogue.entry("own").unwrap();
    assert_eq!(own.origins[0].in_place(), Some(Path::new("/models/x.gguf")));
    assert_eq!(own.origins[1].to_string(), "hub a/b, c/d.gguf");
    assert_eq!(catalogue.pick(&["default".to_owned(), "own".to_owned()]).unwrap(), [Named::File(own)]);
    let again = text.replace("\"own\"", "\"minilm-l6\"").replace("generator", "embedder");
    let catalogue = over(&again).unwrap();
    assert_eq!(catalogue.entry("minilm-l6").unwrap().bytes, 5);
    assert_eq!(catalogue.entries.len(), Catalogue::load(None).unwrap().entries.len());
}

/// A model with these sources.
fn with(sources: &str) -> String {
    format!("{MODEL}sources = [{sources}]")
}

/// What is said of each catalogue.
fn wrong(texts: &[String]) -> String {
    texts.iter().map(|text| format!("{:#}\n\n", over(text).unwrap_err())).collect()
}

#[test]
fn what_is_wrong_is_told_with_line_and_nearest_name() {
    let replaced = |a: &str, b: &str| with("{ path = \"x\" }").replace(a, b);
    insta::assert_snapshot!(wrong(&[
        "[[model]]".to_owned(),
        "models = 3".to_owned(),
        replaced("context", "contxt"),
        replaced("generator", "generatr"),
        replaced("[\"generator\"]", "[]"),
        replaced("2cf2", "2cg2"),
        replaced("bytes = 5", "bytes = -5"),
        replaced("context = 4096", "context = 0"),
        replaced("context = 4096", "context = 4096\nwindow = 5000"),
        replaced("context = 4096", "context = 4096\nbatched = 1"),
        replaced("\"own\"", "\"own.gguf\""),
        replaced("\"own\"", "\"../own\""),
        replaced("\"own\"", "\"better\""),
        replaced("context = 4096\n", ""),
        format!("{0}\n{0}", with("{ path = \"x\" }")),
    ]), @r#"
    own.toml:1: unknown key `model` of the file
    hint: did you mean `models`? (known: models, servers, sets)

    own.toml:1: `models` is a whole number, expected a list

    own.toml:4: unknown key `contxt` of `models`
    hint: did you mean `context`? (known: name, roles, about, licence, context, bytes, sha256, sources, window, memory, batched)

    own.toml:3: unknown value `generatr` of `models.roles`
    hint: did you mean `generator`? (known: generator, scorer, embedder, tokenizer)

    own.toml:3: `roles`: expected at least one

    own.toml:6: `sha256 = "2cg24dba5fb0a30e26e83b2ac5b9e… (66 characters)`: not 64 hex digits
    hint: `sha256sum FILE` prints it

    own.toml:5: `bytes = -5` is out of range

    own.toml:4: `context = 0`, expected at least 1

    own.toml:1: `window = 5000`, but the weights were made for 4096 tokens

    own.toml:5: `batched` is a whole number, expected true or false

    own.toml:2: `name = "own.gguf"`: a name that ends in .gguf would be a path

    own.toml:2: `name = "../own"`: a name begins with a letter or digit

    own.toml: a model has the name of the set `better`

    own.toml:1: `models` lacks `context`
    hint: its keys are name, roles, about, licence, context, bytes, sha256, sources, window, memory, batched

    own.toml:8: a second model `own`
    "#);
}

#[test]
fn what_is_wrong_with_sources_is_told() {
    insta::assert_snapshot!(wrong(&[
        with(""),
        with("\"x.gguf\""),
        with("{ url = \"x\" }"),
        with("{ hub = \"a/b\" }"),
        with("{ hub = \"a\", file = \"x\" }"),
        with("{ hub = \"a/b\", file = \"../x\" }"),
        with("{ package = \"a\", file = \"x\" }"),
        with("{ package = \"--index-url=x==1\", file = \"x\" }"),
        with("{ model = \"own\" }"),
        with("{ model = \"minilm-l6\", file = \"x\" }"),
        with("{ convert = \"minilm\", path = \"x\" }"),
        with("{ parts = [] }"),
        with("{ parts = [{ path = \"x\" }], path = \"y\" }"),
    ]), @r#"
    own.toml:7: `sources`: expected at least one

    own.toml:7: `sources` is a string, expected tables such as `{ path = "x.gguf" }`

    own.toml:7: unknown key `url` of `models.sources`
    hint: known: path, hub, package, file, model, parts, convert

    own.toml:7: a source has `path`, `hub` and `file`, `package` and `file`, or `model`

    own.toml:7: `hub = "a"` is not `owner/repository`

    own.toml:7: `file = "../x"` is not the path of a file on a hub

    own.toml:7: `package = "a"` is not `name==version`

    own.toml:7: `package = "--index-url=x==1"` is not `name==version`

    own.toml:7: unknown model `own`
    hint: known: smollm2-135m-q4_1, smollm2-135m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b, minilm-l6, gemma-3-270m

    own.toml:7: a source has `path`, `hub` and `file`, `package` and `file`, or `model`

    own.toml:7: unknown converter `minilm`
    hint: did you mean `minilm-to-gguf`? (known: minilm-to-gguf, q4_1-to-q8_0)

    own.toml:7: `parts`: expected at least one

    own.toml:7: a source has either `parts` or one file
    "#);
}

#[test]
fn what_is_wrong_with_sets_is_told() {
    insta::assert_snapshot!(wrong(&[
        "[sets.mine]\nwriter = \"minilm-l6\"".to_owned(),
        "[sets.mine]\nembedder = \"minilm-l12\"".to_owned(),
        "[sets.mine]\ngenerator = \"minilm-l6\"".to_owned(),
        "[sets.minilm-l6]\nembedder = \"minilm-l6\"".to_owned(),
    ]), @r"
    own.toml:2: unknown key `writer` of `sets.mine`
    hint: known: generator, scorer, embedder, tokenizer

    own.toml:2: unknown model `minilm-l12`
    hint: did you mean `minilm-l6`? (known: smollm2-135m-q4_1, smollm2-135m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b, minilm-l6, gemma-3-270m)

    own.toml:2: `minilm-l6` is no generator
    hint: its roles are embedder, tokenizer

    own.toml:1: a set and a model are named `minilm-l6`
    ");
    let near = |name: &str| Catalogue::load(None).unwrap().pick(&[name.to_owned()]).unwrap_err();
    assert!(near("defualt").to_string().contains("did you mean `default`?"));
    let unknown = near("qwen2.5-coder-15b");
    insta::assert_snapshot!(unknown, @r"
    unknown model or set `qwen2.5-coder-15b`
    hint: did you mean `qwen2.5-coder-1.5b`? (known: smollm2-135m-q4_1, smollm2-135m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b, minilm-l6, gemma-3-270m, default, better); or the path of a GGUF, with a `/` in it or ending in .gguf
    ");
}

const SERVER: &str =
    "[[servers]]\nname = \"big\"\nroles = [\"generator\", \"scorer\"]\nurl = \"http://h:80/v1\"\n";

#[test]
fn a_server_is_a_model_like_any_other() {
    let text = format!(
        "{SERVER}model = \"m\"\napi_key_env = \"KEY\"\nkind = \"vllm\"\nwindow = 4096\nconcurrency = 8\ntimeout = 2.5\ndeadline = 60\nretries = 0\nbackoff = 1\n[sets.mine]\ngenerator = \"big\"\n"
    );
    let catalogue = over(&text).unwrap();
    let Named::Server(big) = catalogue.model("big").unwrap() else { panic!("no server") };
    let expected = server::Options {
        url: "http://h:80/v1".to_owned(),
        model: Some("m".to_owned()),
        api_key_env: Some("KEY".to_owned()),
        kind: Some(Kind::Vllm),
        window: Some(4096),
        concurrency: 8,
        timeout: 2.5,
        deadline: 60.0,
        retries: 0,
        backoff: 1.0,
    };
    assert_eq!((&big.options, &big.roles[..]), (&expected, &[Role::Generator, Role::Scorer][..]));
    assert_eq!(catalogue.pick(&["mine".to_owned()]).unwrap(), [Named::Server(big)]);
    assert_eq!(catalogue.sets_of("big"), ["mine"]);
    let no_file = catalogue.entry("big").unwrap_err().to_string();
    assert_eq!(no_file, "model `big` is no file: it is on the server http://h:80/v1");
    // What is not said is as if the URL alone were given.
    let defaults = server::Options { url: "http://h:80/v1".to_owned(), ..server::Options::default() };
    assert_eq!(over(SERVER).unwrap().servers[0].options, defaults);
    // One that has the name of a built-in model takes its place.
    let catalogue = over(&SERVER.replace("big", "qwen2.5-coder-0.5b")).unwrap();
    assert!(matches!(catalogue.model("qwen2.5-coder-0.5b").unwrap(), Named::Server(_)));
    assert_eq!(catalogue.all().count(), Catalogue::load(None).unwrap().entries.len());
}

#[test]
fn what_is_wrong_with_a_server_is_told_with_its_line() {
    let with = |more: &str| format!("{SERVER}{more}");
    let mut all = String::new();
    for text in [
        SERVER.replace("[[servers]]", "[[server]]"),
        SERVER.replace("url = \"http://h:80/v1\"\n", ""),
        SERVER.replace("h:80", "me:secret@h:80"),
        SERVER.replace("generator", "writer"),
        with("timout = 3"),
        with("timeout = 0"),
        with("deadline = \"long\""),
        with("concurrency = 0"),
        with("window = 0"),
        with("retries = -1"),
        with("kind = \"open-ai\""),
        with("sha256 = \"x\""),
        format!("{SERVER}{SERVER}"),
        format!("{SERVER}[sets.mine]\nembedder = \"big\""),
    ] {
        all.push_str(&format!("{:#}\n\n", over(&text).unwrap_err()));
    }
    insta::assert_snapshot!(all, @r#"
    own.toml:1: unknown key `server` of the file
    hint: did you mean `servers`? (known: models, servers, sets)

    own.toml:1: `servers` lacks `url`
    hint: its keys are name, roles, about, url, model, api_key_env, kind, window, concurrency, timeout, deadline, retries, backoff

    own.toml:4: the URL holds a password: name a variable with it in `api_key_env`

    own.toml:3: unknown value `writer` of `servers.roles`
    hint: known: generator, scorer, embedder, tokenizer

    own.toml:5: unknown key `timout` of `servers`
    hint: did you mean `timeout`? (known: name, roles, about, url, model, api_key_env, kind, window, concurrency, timeout, deadline, retries, backoff)

    own.toml:5: `timeout` must be more than 0 seconds, not 0

    own.toml:5: `deadline` is a string, expected a number

    own.toml:5: `concurrency` must be at least 1

    own.toml:5: `window = 0`, expected at least 1

    own.toml:5: `retries = -1` is out of range

    own.toml:5: unknown value `open-ai` of `servers.kind`
    hint: did you mean `openai`? (known: llama-server, vllm, openai)

    own.toml:5: unknown key `sha256` of `servers`
    hint: known: name, roles, about, url, model, api_key_env, kind, window, concurrency, timeout, deadline, retries, backoff

    own.toml:5: a second model `big`

    own.toml:6: `big` is no embedder
    hint: its roles are generator, scorer
    "#);
    let no_url = over(&SERVER.replace("http://h", "h")).unwrap_err().to_string();
    assert!(no_url.starts_with("own.toml:4: "), "{no_url}");
}

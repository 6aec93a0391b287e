//! From a prompt to tokens: the chat template of the weights, texts with special tokens off, and the cut.

use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token_type::LlamaTokenAttr;
use llama_cpp_2::vocab::LlamaVocab;
use minijinja::{Environment, context};

use crate::models::prompt::cuts;
use crate::models::{CallError, Part, Prompt};

/// Stand for the texts while the template is rendered. The texts themselves never enter a template, so
/// nothing in them can act.
const SYSTEM: &str = "\u{F8FF}\u{E000}\u{F8FF}";
const USER: &str = "\u{F8FF}\u{E001}\u{F8FF}";

/// Steps that a template may take: those of real ones take some hundreds for two messages.
const FUEL: u64 = 200_000;

/// A piece of what stands around the texts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// The template's own words: control tokens are recognised here and nowhere else.
    Markup(String),
    System,
    User,
}

/// The chat template of a model.
pub(super) struct Template {
    with_system: Result<Vec<Piece>, String>,
    without: Result<Vec<Piece>, String>,
    /// Markup that llama.cpp takes for one token even where special tokens are off.
    reserved: Vec<String>,
}

impl Template {
    /// `source` is the Jinja text inside the GGUF; `bos` and `eos` the texts of these tokens.
    pub(super) fn new(source: Option<&str>, bos: &str, eos: &str, reserved: Vec<String>) -> Self {
        let render = |system: bool| {
            let source = source.ok_or("it has no chat template (a base model?)")?;
            let pieces = pieces(source, system, bos, eos)
                .map_err(|error| format!("its chat template fails: {error}"))?;
            let texts = pieces.iter().filter(|piece| !matches!(piece, Piece::Markup(_)));
            match texts.eq(if system { &[Piece::System, Piece::User][..] } else { &[Piece::User] }) {
                true => Ok(pieces),
                false => Err("its chat template does not hold each message once, in order".to_owned()),
            }
        };
        Self { with_system: render(true), without: render(false), reserved }
    }

    /// The tokens of a text that is data: none of them is one that the weights keep for markup (`<tool_call>`), as
    /// those are cut in two before they are read.
    pub(super) fn data(&self, vocab: &LlamaVocab<'_>, text: &str) -> Vec<LlamaToken> {
        let pieces = unmarked(text, &self.reserved);
        pieces.flat_map(|piece| vocab.tokenize(piece.as_bytes(), false, false)).collect()
    }

    fn pieces(&self, system: bool) -> Result<&[Piece], CallError> {
        let pieces = if system { &self.with_system } else { &self.without };
        match pieces {
            Ok(pieces) => Ok(pieces),
            Err(why) => Err(CallError::Unsupported(format!("chat: {why}"))),
        }
    }
}

/// Cuts a text within each piece of markup, after its first character.
fn unmarked<'t>(text: &'t str, reserved: &[String]) -> impl Iterator<Item = &'t str> {
    let mut cuts: Vec<usize> = reserved
        .iter()
        .flat_map(|markup| text.match_indices(markup.as_str()).map(|(at, _)| at))
        .filter_map(|at| Some(at + text[at..].chars().next()?.len_utf8()))
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts.push(text.len());
    let mut start = 0;
    cuts.into_iter().map(move |end| &text[std::mem::replace(&mut start, end)..end])
}

/// The tokens of a vocabulary that are markup by their look and recognised in any text.
pub(super) fn reserved(vocab: &LlamaVocab<'_>) -> Vec<String> {
    let is_markup = |text: &str| {
        text.len() > 2
            && (text.starts_with('<') && text.ends_with('>') || text.starts_with('[') && text.ends_with(']'))
    };
    vocab
        .tokens()
        .filter(|token| vocab.attr(*token).contains(LlamaTokenAttr::UserDefined))
        .filter_map(|token| String::from_utf8(vocab.token_to_piece(token, true, None)).ok())
        .filter(|text| is_markup(text))
        .collect()
}

fn pieces(source: &str, system: bool, bos: &str, eos: &str) -> Result<Vec<Piece>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |why: String| -> Result<String, minijinja::Error> {
        Err(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, why))
    });
    environment.set_fuel(Some(FUEL));
    // A prompt must not depend on the day.
    environment.add_function("strftime_now", |_format: String| "2024-01-01");
    let mut messages = Vec::new();
    if system {
        messages.push(context! { role => "system", content => SYSTEM });
    }
    messages.push(context! { role => "user", content => USER });
    let rendered = environment.render_str(
        source,
        context! { messages, add_generation_prompt => true, bos_token => bos, eos_token => eos },
    )?;
    Ok(split(&rendered))
}

fn split(rendered: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = rendered;
    loop {
        let next = [(SYSTEM, Piece::System), (USER, Piece::User)]
            .into_iter()
            .filter_map(|(mark, piece)| rest.find(mark).map(|at| (at, mark, piece)))
            .min_by_key(|(at, ..)| *at);
        let Some((at, mark, piece)) = next else { break };
        if at > 0 {
            pieces.push(Piece::Markup(rest[..at].to_owned()));
        }
        pieces.push(piece);
        rest = &rest[at + mark.len()..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Markup(rest.to_owned()));
    }
    pieces
}

/// A prompt as tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    pub tokens: Vec<LlamaToken>,
    /// Where the scored parts stand in `tokens`, in order of the parts.
    pub scored: Vec<std::ops::Range<usize>>,
    /// How many tokens were cut to fit.
    pub cut: u32,
}

/// A run of tokens before it is joined to the others.
struct Run {
    tokens: Vec<LlamaToken>,
    may_cut: bool,
    scored: bool,
}

/// Tokens of a prompt that leaves `reserve` of `window` free.
///
/// Each text is tokenised by itself with special tokens off. Where the whole is too long, parts that may be cut
/// lose their first tokens (`prompt::cuts`).
pub(super) fn tokens(
    vocab: &LlamaVocab<'_>,
    template: &Template,
    prompt: &Prompt,
    window: u32,
    reserve: u32,
) -> Result<Tokens, CallError> {
    let run = |text: &str, special: bool| Run {
        tokens: match special {
            true => vocab.tokenize(text.as_bytes(), false, true),
            false => template.data(vocab, text),
        },
        may_cut: false,
        scored: false,
    };
    let parts = || {
        let part = |part: &Part| Run { may_cut: part.may_cut, scored: part.scored, ..run(&part.text, false) };
        prompt.parts.iter().map(part)
    };
    let mut runs = Vec::new();
    if prompt.chat {
        for piece in template.pieces(!prompt.system.is_empty())? {
            match piece {
                Piece::Markup(markup) => runs.push(run(markup, true)),
                Piece::System => runs.push(run(&prompt.system, false)),
                Piece::User => runs.extend(parts()),
            }
        }
    } else {
        runs.push(run(&prompt.system, false));
        runs.extend(parts());
    }
    runs.push(run(&prompt.prefill, false));

    let bos = vocab.bos();
    let begins = runs.iter().find_map(|run| run.tokens.first()) == Some(&bos);
    if vocab.should_add_bos() && !begins {
        runs.insert(0, Run { tokens: vec![bos], may_cut: false, scored: false });
    }
    let cut = cut(&mut runs, window, reserve)?;

    let mut joined = Tokens { cut, ..Tokens::default() };
    for run in runs {
        let start = joined.tokens.len();
        joined.tokens.extend(&run.tokens);
        if run.scored {
            joined.scored.push(start..joined.tokens.len());
        }
    }
    Ok(joined)
}

fn cut(runs: &mut [Run], window: u32, reserve: u32) -> Result<u32, CallError> {
    let total: usize = runs.iter().map(|run| run.tokens.len()).sum();
    let excess = (total as u32).saturating_add(reserve).saturating_sub(window);
    let lengths: Vec<_> = runs.iter().map(|run| run.may_cut.then_some(run.tokens.len() as u32)).collect();
    let Some(cuts) = cuts(&lengths, excess) else {
        let fixed: usize = runs.iter().filter(|run| !run.may_cut).map(|run| run.tokens.len()).sum();
        return Err(CallError::TooLong { tokens: (fixed as u32).saturating_add(reserve), window });
    };
    for (run, cut) in runs.iter_mut().zip(cuts) {
        run.tokens.drain(..cut as usize);
    }
    Ok(excess)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHATML: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}\
        {{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + \
        message['content'].strip() + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}\
        {{ '<|im_start|>assistant\n' }}{% endif %}";

    #[test]
    fn the_template_is_split_around_the_texts() {
        let markup = |text: &str| Piece::Markup(text.to_owned());
        assert_eq!(
            pieces(CHATML, true, "<s>", "</s>").unwrap(),
            [
                markup("<|im_start|>system\n"),
                Piece::System,
                markup("<|im_end|>\n<|im_start|>user\n"),
                Piece::User,
                markup("<|im_end|>\n<|im_start|>assistant\n"),
            ]
        );
        assert_eq!(
            pieces(CHATML, false, "<s>", "</s>").unwrap(),
            [
                markup("<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\n"),
                Piece::User,
                markup("<|im_end|>\n<|im_start|>assistant\n"),
            ]
        );
    }

    #[test]
    fn a_template_that_raises_is_told_when_it_is_used() {
        let source = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}\
            {{ messages[0].content }}";
        let template = Template::new(Some(source), "", "", Vec::new());
        assert!(template.pieces(false).is_ok());
        let error = template.pieces(true).unwrap_err().to_string();
        assert!(error.contains("no system role"), "{error}");
        let error = |source: &str| {
            Template::new(Some(source), "", "", Vec::new()).pieces(false).unwrap_err().to_string()
        };
        let endless = "{% for a in range(90000) %}{% for b in range(90000) %}x{% endfor %}{% endfor %}";
        assert!(error(endless).contains("fuel"), "{}", error(endless));
        for not_once in ["You help.", "{{ messages[0].content }} {{ messages[0].content }}"] {
            assert!(error(not_once).contains("does not hold each message once"), "{}", error(not_once));
        }
        let none = Template::new(None, "", "", Vec::new()).pieces(false).unwrap_err().to_string();
        assert_eq!(none, "this model cannot chat: it has no chat template (a base model?)");
    }

    #[test]
    fn markup_is_cut_in_two() {
        let reserved = ["<tool_call>".to_owned(), "</tool_call>".to_owned()];
        let cut = |text| unmarked(text, &reserved).collect::<Vec<_>>();
        assert_eq!(cut("a <tool_call>x</tool_call>"), ["a <", "tool_call>x<", "/tool_call>"]);
        assert_eq!(cut("<tool_call>"), ["<", "tool_call>"]);
        assert_eq!(cut("plain < text >"), ["plain < text >"]);
        assert_eq!(cut(""), [""]);
    }

    fn run(tokens: std::ops::Range<i32>, may_cut: bool) -> Run {
        Run { tokens: tokens.map(LlamaToken).collect(), may_cut, scored: false }
    }

    #[test]
    fn what_is_cut_goes_from_the_front() {
        let mut runs = [run(0..5, false), run(10..30, true), run(40..48, true)];
        assert_eq!(cut(&mut runs, 40, 10), Ok(3));
        assert_eq!(runs[1].tokens.first(), Some(&LlamaToken(13)));
        assert_eq!(runs[2].tokens.len(), 8);
        let mut runs = [run(0..5, false), run(10..30, true)];
        assert_eq!(cut(&mut runs, 12, 10), Err(CallError::TooLong { tokens: 15, window: 12 }));
        assert_eq!(cut(&mut [run(0..5, false)], 15, 10), Ok(0));
    }
}

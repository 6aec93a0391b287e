//! Grammars (GBNF) that keep an answer in form.

/// A choice among lines numbered from 1 to `lines`: `none`, or at most `most` numbers with commas between.
///
/// Numbers may repeat and come in any order: a grammar cannot forbid that in a size that is worth it, so whoever
/// reads the answer takes each number once ([`read_lines`]).
pub fn lines(lines: usize, most: usize) -> String {
    let numbers: Vec<String> = (1..=lines).map(|number| format!("\"{number}\"")).collect();
    if lines == 0 || most == 0 {
        return "root ::= \"none\"\n".to_owned();
    }
    let more = match most {
        1 => String::new(),
        _ => format!(" (\", \" number){{0,{}}}", most - 1),
    };
    format!("root ::= \"none\" | number{more}\nnumber ::= {}\n", numbers.join(" | "))
}

/// The numbers of an answer in the form of [`lines`], each once, ascending. Numbers out of range are left out.
pub fn read_lines(answer: &str, lines: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = answer
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .filter(|number| (1..=lines).contains(number))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// JSON of the shape that a JSON schema gives.
///
/// # Errors
/// The schema is not one that can be put into a grammar, or the program was built without llama.cpp, which makes
/// these grammars.
pub fn json(schema: &serde_json::Value) -> Result<String, String> {
    #[cfg(feature = "llama")]
    {
        llama_cpp_2::json_schema_to_grammar(&schema.to_string()).map_err(|error| error.to_string())
    }
    #[cfg(not(feature = "llama"))]
    {
        let _ = schema;
        Err("grammars of JSON schemas need a program with llama.cpp built in".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_lines() {
        assert_eq!(lines(3, 1), "root ::= \"none\" | number\nnumber ::= \"1\" | \"2\" | \"3\"\n");
        assert_eq!(
            lines(2, 5),
            "root ::= \"none\" | number (\", \" number){0,4}\nnumber ::= \"1\" | \"2\"\n"
        );
        assert_eq!(lines(0, 5), "root ::= \"none\"\n");
        assert_eq!(read_lines("7, 2, 2, 99, 0", 10), [2, 7]);
        assert_eq!(read_lines("none", 10), [] as [usize; 0]);
        assert_eq!(read_lines("99999999999999999999999", 10), [] as [usize; 0]);
    }

    #[test]
    #[cfg(feature = "llama")]
    fn a_schema_becomes_a_grammar() {
        let schema = serde_json::json!({
            "type": "object",
            "properties": {"quote": {"type": "string"}, "type": {"enum": ["goal", "fact"]}},
            "required": ["quote", "type"],
        });
        let grammar = json(&schema).unwrap();
        assert!(grammar.contains("root ::="), "{grammar}");
        assert!(grammar.contains("goal"), "{grammar}");
    }
}

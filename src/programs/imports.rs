//! Modules in Python that stand beside a program and that it imports: a change of one is a change of the program.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// `import a.b, c as d` and `from a import b`, at the begin of a line or indented.
static IMPORT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^[ \t]*(?:from[ \t]+\.*([\w.]*)[ \t]+)?import[ \t]+(?:\(([^)]*)|([\w., \t]+))")
        .expect("a valid regex")
});

/// Those of one file; none if it is not in Python, or is not there.
pub(super) fn beside(file: &str) -> Vec<String> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let text = match file.ends_with(".py") {
        true => std::fs::read_to_string(file).unwrap_or_default(),
        false => String::new(),
    };
    let mut found = Vec::new();
    for import in IMPORT.captures_iter(&text) {
        let package = import.get(1).map_or(PathBuf::new(), |name| path(name.as_str()));
        let names = import.get(2).or(import.get(3)).map_or("", |names| names.as_str());
        let names = names.split(',').filter_map(|name| name.split_whitespace().next());
        let modules = names.map(|name| package.join(path(name))).chain([package.clone()]);
        for module in modules.filter(|module| !module.as_os_str().is_empty()) {
            for at in [module.with_extension("py"), module.join("__init__.py")] {
                let at = folder.join(at);
                if let Some(at) = at.to_str().filter(|_| at.is_file()) {
                    found.push(at.to_owned());
                }
            }
        }
    }
    found
}

fn path(module: &str) -> PathBuf {
    module.split('.').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_beside_a_file_are_found_in_each_form_of_import() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir(at("pack")).unwrap();
        for name in ["a.py", "b.py", "c.py", "pack/__init__.py", "pack/d.py", "unused.py"] {
            std::fs::write(at(name), "").unwrap();
        }
        let text = "import json\nimport os, a as x\nif x:\n    from . import b\nfrom pack import (\n    d,\n)\ntry:\n\timport c\nexcept: pass\n";
        std::fs::write(at("mine.py"), text).unwrap();
        let expected = ["a.py", "b.py", "pack/d.py", "pack/__init__.py", "c.py"].map(at);
        assert_eq!(beside(&at("mine.py")), expected);
        std::fs::write(at("mine.sh"), text).unwrap();
        assert_eq!((beside(&at("mine.sh")), beside(&at("gone.py"))), (vec![], vec![]));
    }
}

//! Which tags a template may have: those that show, choose and repeat. Whatever could join, copy, compute or call is refused before
//! the template is read, because no limit of the engine bounds what that takes in memory or time: a step of fuel is a step, however
//! much it copies.

use super::TemplateProblem;

/// The statements there are.
const STATEMENTS: [&str; 6] = ["if", "elif", "else", "endif", "for", "endfor"];
/// What values could be made with, of any size. A comma makes a list of two; two lists of lists, compared, take exponential time.
const REFUSED: [char; 8] = ['~', '*', '+', ',', '[', ']', '{', '}'];
/// The words after which a bracket groups. After any other it calls.
const BEFORE_GROUPS: [&str; 8] = ["if", "elif", "else", "for", "in", "not", "and", "or"];
/// Has a loop write into a text of its own, which nothing bounds.
const RECURSIVE: &str = "recursive";
/// Longest text in quotes, in bytes: a filter copies it in one step.
pub(super) const LITERAL_MAX_BYTES: usize = 256;

/// Refuses a template with other tags.
pub(super) fn check(source: &str) -> Result<(), TemplateProblem> {
    let mut rest = source;
    while let Some(start) = ["{{", "{%", "{#"].into_iter().filter_map(|sign| rest.find(sign)).min() {
        let line = 1 + source[..source.len() - rest.len() + start].matches('\n').count();
        let problem = |reason: String| TemplateProblem { line: Some(line), reason };
        let (sign, inside) = rest[start..].split_at(2);
        let end = match sign {
            "{{" => "}}",
            "{%" => "%}",
            _ => "#}",
        };
        let length = if sign == "{#" { inside.find(end) } else { end_of_tag(inside, end) };
        let Some(length) = length else {
            return Err(problem(format!("\"{sign}\" has no \"{end}\"")));
        };
        let content = inside[..length].trim_matches(['-', '+']).trim();
        if sign == "{%" {
            let word = content.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
            if !STATEMENTS.contains(&word) {
                return Err(problem(format!(
                    "\"{word}\" is not one of the statements {}",
                    STATEMENTS.join(", ")
                )));
            }
        }
        if sign != "{#" {
            check_content(content).map_err(problem)?;
        }
        rest = &inside[length + end.len()..];
    }
    Ok(())
}

/// What a tag consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'tag> {
    /// A name, a word of the language, or a number.
    Word(&'tag str),
    /// A text in quotes, without them.
    Literal(&'tag str),
    /// Anything else.
    Sign(char),
}

/// Refuses what a template could make, copy or call.
fn check_content(content: &str) -> Result<(), String> {
    let parts = parts(content);
    for (index, part) in parts.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| parts[before]);
        match *part {
            Part::Sign(sign) if REFUSED.contains(&sign) => {
                return Err(format!("\"{sign}\" cannot be used: a template shows values and makes none"));
            }
            Part::Sign('(') => {
                // A name behind a dot is a name, whatever it says.
                let is_attribute = index >= 2 && parts[index - 2] == Part::Sign('.');
                let calls = match before {
                    Some(Part::Word(word)) => is_attribute || !BEFORE_GROUPS.contains(&word),
                    Some(Part::Literal(_) | Part::Sign(')')) => true,
                    Some(Part::Sign(_)) | None => false,
                };
                if calls {
                    return Err("nothing can be called: a template shows values and makes none".to_owned());
                }
            }
            Part::Word(RECURSIVE) => {
                return Err(format!("\"{RECURSIVE}\" cannot be used: a loop does not call itself"));
            }
            Part::Literal(text) if text.len() > LITERAL_MAX_BYTES => {
                return Err(format!("a text in quotes has at most {LITERAL_MAX_BYTES} bytes"));
            }
            Part::Literal(_) if matches!(before, Some(Part::Literal(_))) => {
                return Err("two texts in quotes, one after the other, would be joined".to_owned());
            }
            Part::Word(_) | Part::Literal(_) | Part::Sign(_) => {}
        }
    }
    Ok(())
}

fn parts(content: &str) -> Vec<Part<'_>> {
    let mut parts = vec![];
    let mut rest = content.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if matches!(first, '"' | '\'') {
            let text = &rest[1..];
            let length = end_of_literal(text, first);
            parts.push(Part::Literal(&text[..length]));
            // Without its other quote, it is as long as the tag.
            (length + 2).min(rest.len())
        } else if is_word_character(first) {
            let length = rest.find(|letter: char| !is_word_character(letter)).unwrap_or(rest.len());
            parts.push(Part::Word(&rest[..length]));
            length
        } else {
            parts.push(Part::Sign(first));
            first.len_utf8()
        };
        rest = rest[length..].trim_start();
    }
    parts
}

/// The engine takes letters of all scripts for names.
fn is_word_character(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric()
}

/// How long a text is whose first quote was read.
fn end_of_literal(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (index, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if letter == quote => return index,
            _ => {}
        }
    }
    text.len()
}

/// Where a tag ends, literals apart.
fn end_of_tag(inside: &str, end: &str) -> Option<usize> {
    let mut index = 0;
    while let Some(first) = inside[index..].chars().next() {
        if inside[index..].starts_with(end) {
            return Some(index);
        }
        index += first.len_utf8();
        if matches!(first, '"' | '\'') {
            index += end_of_literal(&inside[index..], first);
            // Past the other quote, if there is one.
            index = (index + 1).min(inside.len());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shows_chooses_and_repeats_is_allowed() {
        for source in [
            "plain",
            "a{b:c}",
            "{{ title }} {{- lead -}} {{+ notice +}}",
            "{% if place and not (notice is none) %}{{ place.wait|upper }}{% elif phase == \"a*[b]}}\" %}x{%- else -%}y{% endif %}",
            "{% for remark in remarks %}{{ remark }}{% endfor %}",
            "{# a * b #}",
            "{% if (place) and (not(notice)) or (title in (lead)) %}{% elif (logo) %}{{ (title) if (logo) else (lead) }}{% endif %}",
            "{% for letter in (title) if (letter != \"(\") %}{{ loop.index }}{% endfor %}",
            "{{ title == 'it\\'s (a, b)' }}",
        ] {
            assert_eq!(check(source), Ok(()), "{source}");
        }
    }

    #[test]
    fn what_could_grow_is_refused_with_its_line() {
        for source in [
            "a\n{{ title ~ title }}",
            "\n{{ title * 1000000000 }}",
            "\n{{ 'a' + 'b' }}",
            "\n{{ [1, 2] }}",
            "\n{{ {'a': 1} }}",
            "\n{% set a = title %}",
            "\n{% set a %}{{ title }}{% endset %}",
            "\n{% with a = title %}{% endwith %}",
            "\n{% raw %}{% endraw %}",
            "\n{% autoescape false %}{% endautoescape %}",
            "\n{% include 'a' %}",
            "\n{% filter upper %}{% endfilter %}",
            "\n{{ title",
            "\n{% if title",
            "\n{{ 'a }}",
            "\n{# a",
            "\n{% %}",
            "\n{% for a in \"x\" recursive %}{{ loop(\"x\") }}{% endfor %}",
            "\n{% for a in title if a recursive %}{% endfor %}",
            "\n{{ loop (title) }}",
            "\n{{ title.not(lead) }}",
            "\n{{ title|upper() }}",
            "\n{{ (title)(lead) }}",
            "\n{{ \"a\"(lead) }}",
            "\n{{ été(lead) }}",
            "\n{% for a in ((title, title), 1) %}{% endfor %}",
            "\n{% for a, b in place %}{% endfor %}",
            "\n{{ 'a' \"b\" }}",
        ] {
            assert_eq!(check(source).unwrap_err().line, Some(2), "{source}");
        }
    }

    #[test]
    fn texts_in_quotes_are_short() {
        let literal = |bytes| format!("{{% if title == '{}' %}}{{% endif %}}", "x".repeat(bytes));
        assert_eq!(check(&literal(LITERAL_MAX_BYTES)), Ok(()));
        assert!(check(&literal(LITERAL_MAX_BYTES + 1)).is_err());
    }
}

//! Which tags a template may have: those that show, choose and repeat. Whatever could join, copy or compute is refused before the
//! template is read, because no limit of the engine bounds what that takes in memory.

use super::TemplateProblem;

/// The statements there are.
const STATEMENTS: [&str; 6] = ["if", "elif", "else", "endif", "for", "endfor"];
/// What values could be made with, of any size.
const REFUSED: [char; 7] = ['~', '*', '+', '[', ']', '{', '}'];

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
        if sign != "{#"
            && let Some(refused) = outside_of_strings(content).find(|letter| REFUSED.contains(letter))
        {
            return Err(problem(format!(
                "\"{refused}\" cannot be used: a template shows values and makes none"
            )));
        }
        rest = &inside[length + end.len()..];
    }
    Ok(())
}

/// Where a tag ends, strings apart.
fn end_of_tag(inside: &str, end: &str) -> Option<usize> {
    let mut quote = None;
    let mut is_escaped = false;
    for (index, letter) in inside.char_indices() {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if letter == '\\' => is_escaped = true,
            Some(open) if letter == open => quote = None,
            None if inside[index..].starts_with(end) => return Some(index),
            None if matches!(letter, '"' | '\'') => quote = Some(letter),
            Some(_) | None => {}
        }
    }
    None
}

fn outside_of_strings(content: &str) -> impl Iterator<Item = char> {
    let mut quote = None;
    let mut is_escaped = false;
    content.chars().filter(move |&letter| {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if letter == '\\' => is_escaped = true,
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if matches!(letter, '"' | '\'') => quote = Some(letter),
            None => return true,
        }
        false
    })
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
        ] {
            assert_eq!(check(source).unwrap_err().line, Some(2), "{source}");
        }
    }
}

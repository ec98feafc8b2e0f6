use anteroom_core::Settings;
use anteroom_core::settings::Value as Setting;

use super::*;

/// The example of the documentation.
fn documented() -> String {
    let document = include_str!("../../../../docs/operating/waiting-page.md");
    let (_, section) = document.split_once("## A page of your own\n").expect("the document has the section");
    let (_, rest) = section.split_once("```html\n").expect("the document has an example");
    let (example, _) = rest.split_once("\n```").expect("the example ends");
    example.to_owned()
}

fn write_one(source: &str, page: &Page<'_>) -> Result<String, TemplateProblem> {
    preview(source, &Written::new(page, Language::english(), "abc"))
}

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (name, value) in pairs {
        settings.set(name, &Setting::Text((*value).to_owned())).unwrap();
    }
    settings
}

#[test]
fn the_documented_page_is_written_in_every_situation() {
    let source = documented();
    assert_eq!(check(&source), Ok(()));
    let html = write_one(&source, &sample(Situation::Waiting, None)).unwrap();
    assert!(html.contains("1,284") && html.contains("About 4–7 minutes"), "{html}");
    assert!(html.contains("<script nonce=\"abc\" src=\"/.anteroom/page.js?v="), "{html}");
    assert!(html.contains("id=\"anteroom\">{\""), "{html}");
}

#[test]
fn what_operators_wrote_elsewhere_is_escaped() {
    let settings = settings(&[("notice", "<script>alert(1)</script>"), ("page_heading", "A & \"B\"")]);
    let page = sample(Situation::Waiting, Some(&settings));
    let html = write_one("<p title=\"{{ heading }}\">{{ notice }}</p>", &page).unwrap();
    assert!(!html.contains("<script>") && html.contains("&lt;script&gt;"), "{html}");
    assert!(html.contains("A &amp; &quot;B&quot;"), "{html}");
}

#[test]
fn an_unknown_name_is_told_with_its_line() {
    for source in [
        "\n\n{{ nobody }}",
        "\n\n{{ place.nobody }}",
        "\n\n{% if nobody %}{% endif %}",
        "\n\n{{ texts.nobody }}",
    ] {
        let problem = check(source).unwrap_err();
        assert_eq!(problem.line, Some(3), "{source}: {problem}");
    }
    let problem = check("{{ place.wait }}").unwrap_err();
    assert!(problem.reason.contains("situation"), "without a place there is no wait: {problem}");
    assert_eq!(check("{% if place %}{{ place.wait }}{% endif %}"), Ok(()));
}

#[test]
fn a_template_that_does_not_end_is_ended() {
    let depth = 40;
    let source = format!(
        "{}x{}",
        "{% for remark in remarks %}{% for letter in remark %}".repeat(depth),
        "{% endfor %}{% endfor %}".repeat(depth)
    );
    let problem = check(&source).unwrap_err();
    assert!(!problem.reason.is_empty(), "{problem}");
    let shallow = "{% for a in remarks %}{% for b in remarks %}x{% endfor %}{% endfor %}";
    assert_eq!(check(shallow), Ok(()));
    let recursive = "{% for a in remarks recursive %}{{ loop(remarks) }}{% endfor %}";
    assert!(check(recursive).is_err());
}

#[test]
fn a_template_that_writes_too_much_is_stopped() {
    let long = "x".repeat(20_000);
    let repeats = "{% for a in remarks %}{% for b in remarks %}{% for c in remarks %}{% for d in remarks %}";
    let ends = "{% endfor %}".repeat(4);
    let problem = check(&format!("{repeats}{long}{ends}")).unwrap_err();
    assert!(problem.reason.contains("bytes"), "{problem}");
    let problem = check(&"x".repeat(TEMPLATE_MAX_BYTES + 1)).unwrap_err();
    assert!(problem.reason.contains("at most"), "{problem}");
}

#[test]
fn nothing_can_be_called_and_no_list_is_shown() {
    for source in [
        "{{ range(10) }}",
        "{{ namespace() }}",
        "{{ debug() }}",
        "{{ title|safe }}",
        "{{ remarks }}",
        "{{ texts }}",
        "{{ dict() }}",
        "{{ title.upper() }}",
    ] {
        assert!(check(source).is_err(), "{source}");
    }
}

#[test]
fn pages_that_must_not_lack_anything_are_the_built_in_ones() {
    for situation in [Situation::HandOff, Situation::MoveIn, Situation::Refused] {
        let html = write_one("mine", &sample(situation, None)).unwrap();
        assert!(html.starts_with("<!doctype html>"), "{html}");
    }
    assert_eq!(write_one("mine", &sample(Situation::Gone, None)).unwrap(), "mine");
}

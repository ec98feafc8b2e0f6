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
    preview(source, &LocalizedPage::new(page, Language::english(), "abc"))
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
fn what_operators_wrote_in_settings_is_escaped() {
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
fn what_stands_behind_a_condition_is_tried_too() {
    let names = ["open_address", "notice", "heading", "logo", "enter_address", "join_address"];
    let conditions = names.map(str::to_owned).into_iter().chain(["place and place.remaining".to_owned()]);
    for condition in conditions {
        let behind = |inner: &str| format!("{{% if {condition} %}}{inner}{{% endif %}}");
        assert_eq!(check(&behind("{{ title }}")), Ok(()), "{condition}");
        for mistake in ["{{ nobody }}", "{{ texts.nobody }}", "{{ title|nothing }}", "{{ remarks }}"] {
            assert!(check(&behind(mistake)).is_err(), "{condition}: {mistake}");
        }
    }
    // What no sample comes to.
    let problem = check("\n{% if phase == \"never\" %}{{ place.nobody }}{% endif %}").unwrap_err();
    assert_eq!((problem.line, problem.reason.contains("place.nobody")), (Some(2), true), "{problem}");
    let never = |inner: &str| format!("{{% if phase == \"never\" %}}{inner}{{% endif %}}");
    for good in [
        "{{ place.wait }}",
        "{{ texts.leave_button }}",
        "{% for remark in remarks %}{{ loop.index }}{{ remark }}{% endfor %}",
    ] {
        assert_eq!(check(&never(good)), Ok(()), "{good}");
    }
    for bad in ["{{ tilte }}", "{{ title.wait }}", "{{ texts.leave_buton }}", "{{ loop.index }}"] {
        assert!(check(&never(bad)).is_err(), "{bad}");
    }
}

#[test]
fn every_name_that_is_documented_is_given() {
    let document = include_str!("../../../../docs/operating/waiting-page.md");
    let (_, section) = document.split_once("### What it is given\n").expect("the document has the section");
    let (section, _) = section.split_once("\n### ").expect("another section follows");
    let (names, of_place) = section.split_once("| `place.` | |").expect("two tables");
    let first_column = |table: &str| -> Vec<String> {
        let cells =
            table.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
    };
    let names = first_column(names).into_iter();
    let all: Vec<String> =
        names.chain(first_column(of_place).into_iter().map(|name| format!("place.{name}"))).collect();
    assert!(all.len() > 25, "{all:?}");
    for name in all {
        assert_eq!(check(&format!("{{% if place and {name} %}}{{% endif %}}")), Ok(()), "{name}");
    }
}

#[test]
fn no_step_copies_much() {
    // Each of these would cost one step of fuel, and copy or compare as much as it likes.
    let loops = "{% for a in title %}{% for b in title %}{% for c in title %}";
    let ends = "{% endfor %}".repeat(3);
    let long = "x".repeat(50_000);
    for attack in [
        format!("{loops}{{% if \"{long}\"|upper == title %}}{{% endif %}}{ends}"),
        format!("{loops}{{% if script|upper == title %}}{{% endif %}}{ends}"),
        "{% for a in \"xx\" recursive %}{{ loop(\"xx\") }}xxxxxxxxxxxxxxxx{% endfor %}".to_owned(),
        "{% for a in title %}{{ loop(title) }}{% endfor %}".to_owned(),
        "{% for a in ((title,title),1) %}{% for b in ((a,a),1) %}{% if b == b %}{% endif %}{% endfor %}{% endfor %}"
            .to_owned(),
    ] {
        assert!(check(&attack).is_err(), "{attack}");
    }
    let settings = settings(&[("page_logo", &format!("/{}", "a".repeat(8_000))), ("notice", "Soon")]);
    let page = sample(Situation::Waiting, Some(&settings));
    assert!(write_one("{{ logo|lower }}", &page).is_err());
    assert_eq!(write_one("{{ notice|upper }}", &page).unwrap(), "SOON");
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

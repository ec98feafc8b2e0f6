use super::*;

#[test]
fn visitors_read_what_they_prefer_of_what_there_is() {
    for (header, tag) in [
        ("", "en"),
        ("ar", "ar"),
        ("ar-EG,en;q=0.5", "ar"),
        ("en;q=0.5, ar;q=0.8", "ar"),
        ("xx, ar;q=0.1", "ar"),
        ("ar;q=0, en;q=0.2", "en"),
        ("ar;q=0", "en"),
        ("*", "en"),
        ("ar;q=2", "en"),
        ("AR-sa", "ar"),
        (";;;,,,q=", "en"),
    ] {
        assert_eq!(Language::from_accept_language(header).tag, tag, "{header}");
    }
}

use super::*;

#[test]
fn index_is_a_page_that_browsers_ask_for_each_time() {
    let page = index(None);
    assert_eq!(page.content_type, "text/html; charset=utf-8");
    assert_eq!(page.encoding, None);
    assert_eq!(page.cache, "no-cache");
    assert!(
        page.bytes.starts_with(b"<!doctype html>"),
        "{}",
        page.bytes.escape_ascii()
    );
}

#[test]
fn file_is_found_with_and_without_leading_slash() {
    assert_eq!(file("/index.html", None), file("index.html", None));
    assert!(file("/index.html", None).is_some());
}

#[test]
fn file_is_absent_for_pages_and_foreign_paths() {
    for path in [
        "",
        "/",
        "/resources",
        "/../Cargo.toml",
        "assets",
        "/index.html.br",
        ".gitkeep",
        "//index.html",
    ] {
        assert_eq!(file(path, Some("br")), None, "{path}");
    }
}

#[test]
fn files_are_sorted_by_path() {
    assert!(FILES.is_sorted_by(|left, right| left.path < right.path));
}

#[test]
fn brotli_is_sent_only_when_it_is_accepted() {
    let embedded = Embedded {
        path: "assets/a.js",
        content_type: "x",
        hashed: true,
        digest: "1",
        plain: b"plain",
        brotli: Some(b"packed"),
    };
    let packed = embedded.answer(Some("gzip, br"));
    assert_eq!(
        (packed.encoding, packed.etag.as_str(), &*packed.bytes),
        (Some("br"), "\"1-br\"", &b"packed"[..])
    );
    let plain = embedded.answer(Some("gzip"));
    assert_eq!(
        (plain.encoding, plain.etag.as_str(), &*plain.bytes),
        (None, "\"1\"", &b"plain"[..])
    );
    assert_eq!(plain.cache, "public, max-age=31536000, immutable");
}

#[test]
fn accept_encoding_with_weight_zero_refuses_brotli() {
    for (header, accepted) in [
        ("br", true),
        ("gzip, deflate, BR", true),
        ("gzip;q=1.0, br;q=0.5", true),
        ("br;q=0", false),
        ("br; q=0.000", false),
        ("gzip", false),
        ("brotli", false),
        ("", false),
    ] {
        assert_eq!(accepts_brotli(header), accepted, "{header}");
    }
}

#[test]
fn built_pages_load_nothing_from_elsewhere_and_nothing_inline() {
    let page = String::from_utf8(index(None).bytes.into_owned()).unwrap();
    for forbidden in ["http://", "https://", "<style", " style=", " onload="] {
        assert!(!page.contains(forbidden), "the page contains {forbidden}");
    }
    for tag in page.split("<script").skip(1) {
        assert!(
            tag.split('>').next().unwrap().contains("src=\"/"),
            "the page has a script without a source: {tag}"
        );
    }
}

#[test]
fn stub_and_readme_install_packages_as_the_guides_do() {
    let guide = include_str!("../../../../docs/guide/develop.md");
    let (stub, readme) = (
        include_str!("../web/stub/index.html"),
        include_str!("../web/README.md"),
    );
    for (name, text) in [("guide", guide), ("stub", stub), ("README", readme)] {
        let mut lines = text.lines().filter(|line| line.contains("npm install"));
        assert!(lines.clone().count() > 0, "{name}");
        assert!(lines.all(|line| line.contains("npm install --no-save")), "{name}");
    }
}

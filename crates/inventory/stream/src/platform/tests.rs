use super::*;

#[test]
fn urls_are_refused_that_the_client_cannot_call() {
    for good in [
        "https://hub",
        "http://10.0.0.1:8080",
        "https://hub.example/base/",
        "https://[::1]:8443",
    ] {
        assert_eq!(check_url(good), Ok(()), "{good}");
    }
    for bad in [
        "https://",
        "ftp://hub",
        "https://user:pw@hub",
        "https://hub?x=1",
        "https://hub#a",
        "hub",
        "https://a b",
        "https://hub:99999",
        "https://hub:abc",
        "https://256.1.1.1",
    ] {
        let error = check_url(bad).unwrap_err();
        assert!(error.starts_with("spec.platformURL must"), "{bad}: {error}");
    }
}

//! The page for people at the address of the metrics. What it consists of says nothing of the file system, so it takes no
//! token; what it shows it asks for with the token that its user gives it.

use super::http::Answer;

/// The page loads nothing from elsewhere, runs no script that is not a file of it, and is in no frame of another.
const HEADERS: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
                       connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                       frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\n\
                       Referrer-Policy: no-referrer\r\n";

const FILES: [(&str, &str, &str); 4] = [
    ("/", "text/html; charset=utf-8", include_str!("page/page.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("/charts.js", "text/javascript; charset=utf-8", include_str!("page/charts.js")),
];

/// `None`: the page has no such file.
pub fn file(path: &str) -> Option<Answer> {
    let (_, media, body) = FILES.iter().find(|(name, ..)| *name == path)?;
    Some(Answer { status: "200 OK", headers: HEADERS, media, body: (*body).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_its_files_and_no_other_host() {
        let page = file("/").expect("the page").body;
        for (name, ..) in &FILES[1..] {
            assert!(page.contains(&format!("\"{}\"", &name[1..])), "{name} is not used");
        }
        for (name, _, body) in FILES {
            let elsewhere = body.match_indices("//").filter(|(at, _)| body[..*at].ends_with(':'));
            let elsewhere =
                elsewhere.filter(|(at, _)| !body[*at..].starts_with("//www.w3.org/2000/svg"));
            assert_eq!(elsewhere.count(), 0, "{name} names another host");
        }
        assert!(file("/page").is_none());
    }
}

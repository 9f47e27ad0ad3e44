use super::*;
use crate::record::DiagnosticCode;

fn page(next: Option<u64>, records: usize, diagnostics: usize) -> RecordPage {
    let record = Record {
        seq: 0,
        time_ms: 0,
        kind: "x".to_owned(),
        data: crate::raw_json("{}").unwrap(),
    };
    let diagnostic = Diagnostic {
        code: DiagnosticCode::Gap,
        lost: true,
        seq: None,
        place: None,
        message: String::new(),
    };
    RecordPage {
        records: vec![record; records],
        next,
        diagnostics: vec![diagnostic; diagnostics],
    }
}

#[test]
fn a_page_leads_on_or_ends_or_is_an_error() {
    let check = |page: RecordPage, seq: u64, expected: Option<Option<u64>>| {
        let next = page.next_after(seq);
        if let Err(error) = &next {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(!error.is_temporary(), "asking again leads nowhere");
        }
        assert_eq!(next.ok(), expected, "{page:?} from {seq}");
    };
    check(page(None, 3, 0), 5, Some(None));
    check(page(None, 0, 0), 5, Some(None));
    check(page(Some(8), 3, 0), 5, Some(Some(8)));
    check(page(Some(8), 0, 1), 5, Some(Some(8)));
    check(page(Some(5), 3, 0), 5, None);
    check(page(Some(0), 3, 0), 5, None);
    check(page(Some(8), 0, 0), 5, None);
}

fn unused<T>() -> Result<T> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "not a part of this test",
    ))
}

/// A store whose every page says that there is more at the same place.
struct Endless;

#[async_trait]
impl ThreadStore for Endless {
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities::default()
    }

    async fn create(&self, _: NewThread) -> Result<Box<dyn ThreadWriter>> {
        unused()
    }

    async fn open_writer(&self, _: &ThreadId) -> Result<Box<dyn ThreadWriter>> {
        unused()
    }

    async fn read(&self, _: &ThreadId, _: ReadRange) -> Result<RecordPage> {
        Ok(page(Some(1), 1, 0))
    }

    async fn metadata(&self, _: &ThreadId) -> Result<ThreadMetadata> {
        unused()
    }

    async fn list(&self, _: ListThreads) -> Result<ThreadPage> {
        unused()
    }

    async fn delete(&self, _: &ThreadId) -> Result<()> {
        unused()
    }
}

#[test]
fn checking_a_store_whose_pages_never_end_ends() {
    let thread = ThreadId::new("t").unwrap();
    let mut check = Endless.check(&thread);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(found) = check.as_mut().poll(&mut context) else {
        panic!("nothing is waited for");
    };
    let error = found.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(error.context_value("thread"), Some("t"));
    assert!(error.message().contains("the store is at fault"), "{error}");
}

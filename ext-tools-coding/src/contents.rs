//! What kind of content some bytes are.

/// As much of a file's beginning tells what it is.
pub(crate) const SNIFFED_BYTES: usize = 8 * 1024;

/// The media type of a picture that models can look at.
pub(crate) fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

/// What a file is, if it isn't text.
pub(crate) fn binary_type(bytes: &[u8]) -> Option<&'static str> {
    const KNOWN: [(&[u8], &str); 15] = [
        (b"%PDF-", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive or an office document"),
        (b"\x1f\x8b", "gzip-compressed"),
        (b"BZh", "bzip2-compressed"),
        (b"\xfd7zXZ\0", "xz-compressed"),
        (b"\x28\xb5\x2f\xfd", "Zstandard-compressed"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (b"\x7fELF", "an ELF executable or library"),
        (b"\xcf\xfa\xed\xfe", "a Mach-O executable or library"),
        (b"\0asm", "a WebAssembly module"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"OggS", "Ogg media"),
        (b"ID3", "MP3 audio"),
        (b"\xff\xfe", "UTF-16 text (convert it with iconv)"),
        (b"\xfe\xff", "UTF-16 text (convert it with iconv)"),
    ];
    let start = &bytes[..bytes.len().min(SNIFFED_BYTES)];
    if !start.contains(&0) && !start.starts_with(b"%PDF-") {
        return None;
    }
    if start.get(257..262) == Some(b"ustar") {
        return Some("a tar archive");
    }
    if start.get(4..8) == Some(b"ftyp") {
        return Some("MP4 media");
    }
    let known = KNOWN.iter().find(|(magic, _)| start.starts_with(magic));
    Some(known.map_or("of an unknown type", |(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_told_by_its_beginning() {
        let check = |bytes: &[u8], binary: Option<&str>, image: Option<&str>| {
            assert_eq!(binary_type(bytes), binary, "{bytes:?}");
            assert_eq!(image_type(bytes), image, "{bytes:?}");
        };
        check(b"", None, None);
        check(b"plain", None, None);
        check(b"latin \xe4", None, None);
        check(b"a\0b", Some("of an unknown type"), None);
        check(b"\x7fELF\x02\0", Some("an ELF executable or library"), None);
        check(b"%PDF-1.7\n", Some("a PDF document"), None);
        check(
            b"\xff\xfea\0",
            Some("UTF-16 text (convert it with iconv)"),
            None,
        );
        check(b"GIF89a", None, Some("image/gif"));
        check(b"RIFF1234WEBPVP8 ", None, Some("image/webp"));
        check(b"RIFF1234WAVE", None, None);
    }
}

//! Pictures, sound and files in a message, told by a placeholder.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::logs::formats::reading::draft::Losses;

use super::super::scalar;
use super::Content;

/// Data that is not text: its media type and size, and its address if it is not inline.
#[derive(Debug, Default)]
pub(crate) struct Media {
    pub(crate) media_type: Option<String>,
    pub(crate) n_bytes: u64,
    pub(crate) address: Option<String>,
    /// The words, where it holds text after all (a document in plain text).
    pub(crate) text: Option<String>,
}

impl Media {
    fn of_str(text: &str) -> Self {
        if let Some(rest) = text.strip_prefix("data:") {
            let (head, data) = rest.split_once(',').unwrap_or((rest, ""));
            let media_type = head.split(';').next().filter(|t| !t.is_empty() && t.len() < 60);
            return Media {
                media_type: media_type.map(str::to_owned),
                n_bytes: scalar::base64_bytes(data.len()),
                ..Media::default()
            };
        }
        if text.len() < 300 && (text.contains("://") || text.starts_with("file-")) {
            return Media { address: Some(text.to_owned()), ..Media::default() };
        }
        Media { n_bytes: scalar::base64_bytes(text.len()), ..Media::default() }
    }

    /// What stands in the text for it.
    pub(crate) fn placeholder(&self, kind: &str) -> String {
        let media_type = self.media_type.as_deref().unwrap_or("unknown");
        match &self.address {
            Some(address) => format!("[{kind} {address}]"),
            None => format!("[{kind} {media_type} {} bytes]", self.n_bytes),
        }
    }
}

/// What stands in the text for data of its media type.
pub(crate) fn media_text(media: Media, losses: &mut Losses) -> String {
    losses.add("media replaced by a placeholder");
    let of_type = media.media_type.as_deref().and_then(|name| name.split('/').next());
    media.placeholder(of_type.filter(|kind| ["image", "audio"].contains(kind)).unwrap_or("file"))
}

impl<'de> Deserialize<'de> for Media {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MediaVisitor;
        impl<'de> Visitor<'de> for MediaVisitor {
            type Value = Media;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("media data")
            }
            fn visit_str<E>(self, text: &str) -> Result<Media, E> {
                Ok(Media::of_str(text))
            }
            fn visit_bool<E>(self, _: bool) -> Result<Media, E> {
                Ok(Media::default())
            }
            fn visit_u64<E>(self, _: u64) -> Result<Media, E> {
                Ok(Media::default())
            }
            fn visit_i64<E>(self, _: i64) -> Result<Media, E> {
                Ok(Media::default())
            }
            fn visit_f64<E>(self, _: f64) -> Result<Media, E> {
                Ok(Media::default())
            }
            fn visit_unit<E>(self) -> Result<Media, E> {
                Ok(Media::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Media, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Media::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Media, A::Error> {
                let mut media = Media::default();
                let mut media_type = None;
                let mut is_text = false;
                while let Some(key) = map.next_key::<crate::logs::formats::reading::fields::Key<'de>>()? {
                    match key.0.as_ref() {
                        "type" => is_text = map.next_value::<Content>()?.is_text("text"),
                        "data" if is_text => {
                            media.text = Some(map.next_value::<Content>()?.into_text(&mut Losses::default()));
                        }
                        "content" => {
                            media.text = Some(map.next_value::<Content>()?.into_text(&mut Losses::default()));
                        }
                        "url" | "data" | "file_data" | "base64" | "file_id" | "fileUri" => {
                            media = map.next_value()?
                        }
                        "media_type" | "mime_type" | "mimeType" | "format" => {
                            media_type = map.next_value::<Option<String>>()?
                        }
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                media.media_type = media_type.or(media.media_type);
                Ok(media)
            }
        }
        deserializer.deserialize_any(MediaVisitor)
    }
}

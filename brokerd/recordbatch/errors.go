package recordbatch

import "errors"

var (
	// ErrCorrupt is returned when length, magic or checksum are wrong
	// (Kafka's CORRUPT_MESSAGE).
	ErrCorrupt = errors.New("recordbatch: corrupt batch")
	// ErrInvalidRecord is returned when the batch is intact but says what no
	// client may say: counts, control bit, producer fields, records that do
	// not parse (Kafka's INVALID_RECORD).
	ErrInvalidRecord = errors.New("recordbatch: invalid record")
	// ErrTooLarge is returned when a batch exceeds the limit on its bytes
	// (Kafka's MESSAGE_TOO_LARGE).
	ErrTooLarge = errors.New("recordbatch: batch too large")
	// ErrUnsupportedMagic is returned for the message formats before v2.
	ErrUnsupportedMagic = errors.New("recordbatch: unsupported message format")
	// ErrUnsupportedCodec is returned for a compression nobody defined.
	ErrUnsupportedCodec = errors.New("recordbatch: unsupported compression type")
	// ErrInvalidTimestamp is returned when a batch's newest timestamp lies
	// outside what the topic allows (Kafka's INVALID_TIMESTAMP).
	ErrInvalidTimestamp = errors.New("recordbatch: timestamp out of range")
	// ErrExpansion is returned when a batch decompresses to more than the cap.
	ErrExpansion = errors.New("recordbatch: decompressed records exceed the limit")
)

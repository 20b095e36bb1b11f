package transport

import "bytes"

// sniffBytes are read before a connection's kind is known. Every protocol that may speak here sends at least as many
// at once.
const sniffBytes = 4

// kind is what a connection's first bytes look like.
type kind int

const (
	kindUnknown kind = iota
	kindGRPC
	kindRaft
	kindTLS
	kindHTTP
	kindKafka
)

// classify judges a connection by its first bytes.
func classify(head [sniffBytes]byte) kind {
	switch {
	case string(head[:]) == "PRI ":
		return kindGRPC
	case head[0] == preambleMagic[0]:
		return kindRaft
	case head[0] == 0x16 && head[1] == 0x03: // handshake record of TLS 1.x
		return kindTLS
	case isHTTP(head[:]):
		return kindHTTP
	case head[0] == 0: // the length of a Kafka request below 16 MiB
		return kindKafka
	}
	return kindUnknown
}

func isHTTP(head []byte) bool {
	for _, method := range []string{"GET ", "HEAD", "POST", "PUT ", "DELE", "OPTI", "CONN", "PATC", "TRAC"} {
		if bytes.Equal(head, []byte(method)) {
			return true
		}
	}
	return false
}

// complaint is the one line about a stranger.
func (k kind) complaint() string {
	switch k {
	case kindTLS:
		return "a TLS client connected to the quorum port, which speaks plaintext"
	case kindHTTP:
		return "an HTTP/1 client connected to the quorum port; health and metrics are on the admin port"
	case kindKafka:
		return "what looks like a Kafka client connected to the quorum port; Kafka clients connect to a broker's listener"
	case kindUnknown, kindGRPC, kindRaft:
	}
	return "a stranger connected to the quorum port; its first bytes are of no protocol spoken here"
}

// farewell is what a stranger is told in its own protocol; nil if there is nothing to say.
func (k kind) farewell() []byte {
	switch k {
	case kindTLS:
		return []byte{0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x46} // fatal alert: protocol version
	case kindHTTP:
		const text = "This is a Skiff quorum port. Health and metrics are on the admin port.\n"
		return []byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n" + text)
	case kindUnknown, kindGRPC, kindRaft, kindKafka:
	}
	return nil
}

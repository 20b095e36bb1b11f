package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The readers below serve the typed configurations. Load has checked every value against its kind, so a value that does not parse
// is a mistake in the table of keys, not in the input; TestEveryKeyHasAType reads them all.

func (v *Values) get(key string) Value {
	value, ok := v.values[key]
	if !ok {
		panic(fmt.Sprintf("config: %s is no key of %s", key, v.role))
	}
	return value
}

func (v *Values) given(key string) bool { return v.get(key).Source.Kind != SourceDefault }

func (v *Values) text(key string) string { return v.get(key).Text }

func (v *Values) word(key string) string { return strings.ToLower(v.text(key)) }

func (v *Values) list(key string) []string { return splitList(v.text(key)) }

func (v *Values) flag(key string) bool { return v.word(key) == "true" }

func (v *Values) int64(key string) int64 {
	n, err := strconv.ParseInt(v.text(key), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("config: %s: %v", key, err))
	}
	return n
}

func (v *Values) int32(key string) int32 { return int32(v.int64(key)) }

// millis reads a key in milliseconds; a negative one stays negative.
func (v *Values) millis(key string) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(v.int64(key), most)) * time.Millisecond
}

// problem words that a value does not fit with others.
func (v *Values) problem(key, fix, format string, args ...any) error {
	value := v.get(key)
	return Usage(fix, "configuration: %s = %q (%s): %s", key, value.Text, value.Source, fmt.Sprintf(format, args...))
}

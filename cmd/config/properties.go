package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parseProperties reads a file in the format of java.util.Properties: "key=value", "key: value" or "key value" a line, comments
// with # or !, a trailing backslash joins the next line, \t \n \r \f \uXXXX and \<any> are escapes. As in Java, the last of
// several lines with one key wins; that is decided by the caller, here every line is returned.
func parseProperties(name string, data []byte) ([]Setting, error) {
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("%s is not UTF-8 text", name)
	}
	var settings []Setting
	lines := splitLines(string(data))
	for i := 0; i < len(lines); i++ {
		number := i + 1
		line := trimBlank(lines[i])
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for continues(line) {
			line = line[:len(line)-1]
			if i++; i == len(lines) {
				break
			}
			line += trimBlank(lines[i])
		}
		key, value, err := splitProperty(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		settings = append(settings, Setting{Key: key, Value: value, Source: Source{Kind: SourceFile, Name: name, Line: number}})
	}
	return settings, nil
}

// splitLines splits at \n, \r\n and \r.
func splitLines(text string) []string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Split(strings.ReplaceAll(text, "\r", "\n"), "\n")
}

// trimBlank drops the white space that Java drops before a key.
func trimBlank(line string) string { return strings.TrimLeft(line, " \t\f") }

// continues tells whether the line ends with an odd number of backslashes.
func continues(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// splitProperty cuts a logical line into key and value.
func splitProperty(line string) (key, value string, err error) {
	end := 0
	for end < len(line) && !strings.ContainsRune("=: \t\f", rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	rest := trimBlank(line[end:])
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = trimBlank(rest[1:])
	}
	if key, err = unescape(line[:end]); err != nil {
		return "", "", err
	}
	if key == "" {
		return "", "", fmt.Errorf("a line without a key: %.40q", line)
	}
	if value, err = unescape(rest); err != nil {
		return "", "", fmt.Errorf("%s: %w", key, err)
	}
	// Java keeps white space at the end of a value; Kafka trims it when it reads the value.
	return key, strings.TrimSpace(value), nil
}

// unescape undoes the escapes.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			r, err := unicodeEscape(s[i+1:])
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			i += 4
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}

// unicodeEscape reads the four digits after \u.
func unicodeEscape(s string) (rune, error) {
	if len(s) < 4 {
		return 0, fmt.Errorf(`\u needs four hexadecimal digits, found %q`, s)
	}
	n, err := strconv.ParseUint(s[:4], 16, 16)
	if err != nil {
		return 0, fmt.Errorf(`\u needs four hexadecimal digits, found %q`, s[:4])
	}
	return rune(n), nil
}

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// yamlDepthMax bounds the nesting of a configuration file; Kafka's longest key has eight parts.
const yamlDepthMax = 16

// parseYAML reads one YAML document whose mappings, joined with dots, are keys: "node.id: 1" and "node: {id: 1}" are the same.
// Lists are joined with commas. Anchors are refused: a small file could otherwise grow without bound.
func parseYAML(name string, data []byte) ([]Setting, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more than one YAML document", name)
	}
	if len(document.Content) != 1 {
		return nil, nil
	}
	w := yamlWalk{name: name, seen: make(map[string]int)}
	if err := w.mapping("", document.Content[0], 0); err != nil {
		return nil, err
	}
	return w.settings, nil
}

// yamlWalk gathers the settings of one document.
type yamlWalk struct {
	name     string
	seen     map[string]int // line of each key
	settings []Setting
}

func (w *yamlWalk) mapping(prefix string, node *yaml.Node, depth int) error {
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" && prefix == "" {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: want keys with values", w.name, node.Line)
	}
	if depth > yamlDepthMax {
		return fmt.Errorf("%s:%d: nested deeper than %d", w.name, node.Line, yamlDepthMax)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Value == "" || key.Tag == "!!merge" {
			return fmt.Errorf("%s:%d: a key must be plain text", w.name, key.Line)
		}
		if err := w.value(prefix+key.Value, value, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *yamlWalk) value(key string, node *yaml.Node, depth int) error {
	switch node.Kind {
	case yaml.MappingNode:
		return w.mapping(key+".", node, depth)
	case yaml.SequenceNode:
		items, err := w.items(key, node)
		if err != nil {
			return err
		}
		return w.add(key, strings.Join(items, ","), node.Line)
	case yaml.ScalarNode:
		if node.Tag == "!!null" {
			return w.add(key, "", node.Line)
		}
		return w.add(key, strings.TrimSpace(node.Value), node.Line)
	case yaml.AliasNode, yaml.DocumentNode:
	}
	return fmt.Errorf("%s:%d: %s: anchors are not supported", w.name, node.Line, key)
}

func (w *yamlWalk) items(key string, node *yaml.Node) ([]string, error) {
	items := make([]string, 0, len(node.Content))
	for _, item := range node.Content {
		if item.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("%s:%d: %s: an item of a list must be plain text", w.name, item.Line, key)
		}
		items = append(items, strings.TrimSpace(item.Value))
	}
	return items, nil
}

func (w *yamlWalk) add(key, value string, line int) error {
	if first, twice := w.seen[key]; twice {
		return fmt.Errorf("%s:%d: %s stands already at line %d", w.name, line, key, first)
	}
	w.seen[key] = line
	w.settings = append(w.settings, Setting{Key: key, Value: value, Source: Source{Kind: SourceFile, Name: w.name, Line: line}})
	return nil
}

package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// masked fields differ from cluster to cluster by right; what is kept is whether there is a value.
var masked = map[string]bool{
	"Host": true, "Port": true, "ClusterID": true, "ControllerID": true,
	"Dir": true, "Size": true, "TotalBytes": true, "UsableBytes": true,
	"ErrorMessage": true,
}

// dropped fields say nothing about the decision.
var dropped = map[string]bool{"Version": true, "ThrottleMillis": true, "UnknownTags": true, "Documentation": true, "Rack": true}

// normal makes a tree of plain values of an answer: names of fields to values, without what is masked.
func normal(response any, names map[[16]byte]string) any {
	return walk(reflect.ValueOf(response), names)
}

func walk(v reflect.Value, names map[[16]byte]string) any {
	switch v.Kind() { //nolint:exhaustive // the others are plain values
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return walk(v.Elem(), names)
	case reflect.Struct:
		return walkStruct(v, names)
	case reflect.Array:
		if id, ok := v.Interface().([16]byte); ok {
			return nameOf(id, names)
		}
		return fmt.Sprint(v.Interface())
	case reflect.Slice:
		return walkSlice(v, names)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return float64(v.Int())
	default:
		return v.Interface()
	}
}

func walkStruct(v reflect.Value, names map[[16]byte]string) any {
	fields := make(map[string]any)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if dropped[name] {
			continue
		}
		if masked[name] {
			fields[name] = presence(v.Field(i))
			continue
		}
		fields[name] = walk(v.Field(i), names)
	}
	return fields
}

// presence tells whether a masked field has a value.
func presence(v reflect.Value) string {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return "absent"
	}
	return "present"
}

// nameOf words a topic id.
func nameOf(id [16]byte, names map[[16]byte]string) string {
	switch name, ok := names[id]; {
	case ok:
		return "id of " + name
	case id == [16]byte{}:
		return "no id"
	}
	return "some id"
}

// walkSlice keeps the order of numbers and sorts objects: Kafka answers items in the order of its hash maps.
func walkSlice(v reflect.Value, names map[[16]byte]string) any {
	if v.IsNil() {
		return nil
	}
	list := make([]any, 0, v.Len())
	for i := range v.Len() {
		list = append(list, walk(v.Index(i), names))
	}
	if v.Type().Elem().Kind() == reflect.Struct {
		slices.SortFunc(list, func(a, b any) int { return bytes.Compare(text(a), text(b)) })
	}
	return list
}

// text of a tree; the keys of objects are in order.
func text(tree any) []byte {
	b, err := json.Marshal(tree)
	if err != nil {
		return []byte(err.Error())
	}
	return b
}

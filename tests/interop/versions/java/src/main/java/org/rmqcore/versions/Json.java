package org.rmqcore.versions;

import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;

/** Writes maps, lists, numbers and texts. */
final class Json {
    private Json() {
    }

    static Map<String, Object> object(Object... namesAndValues) {
        Map<String, Object> object = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            object.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        return object;
    }

    static void write(StringBuilder out, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Map) {
            String before = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(before);
                write(out, String.valueOf(entry.getKey()));
                out.append(':');
                write(out, entry.getValue());
                before = ",";
            }
            out.append(before.equals("{") ? "{}" : "}");
        } else if (value instanceof Collection) {
            String before = "[";
            for (Object item : (Collection<?>) value) {
                out.append(before);
                write(out, item);
                before = ",";
            }
            out.append(before.equals("[") ? "[]" : "]");
        } else {
            out.append('"');
            for (char c : value.toString().toCharArray()) {
                if (c == '"' || c == '\\') {
                    out.append('\\').append(c);
                } else if (c < 32 || c > 126) {
                    out.append(String.format("\\u%04x", (int) c));
                } else {
                    out.append(c);
                }
            }
            out.append('"');
        }
    }
}

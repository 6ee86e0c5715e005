package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.zip.CRC32;

/** How values cross the pipe: bytes as base64 or as their CRC-32, hosts as "ip:port" or "[v6]:port". */
final class Json {
    private Json() {
    }

    static JSONObject object(Object... namesAndValues) {
        JSONObject made = new JSONObject(new LinkedHashMap<>());
        for (int i = 0; i < namesAndValues.length; i += 2) {
            made.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        return made;
    }

    /** One call of {@code each} for every object of an array, in order. */
    static JSONArray map(JSONArray requests, Step each) throws Exception {
        JSONArray answers = new JSONArray();
        for (int i = 0; i < requests.size(); i++) {
            answers.add(each.apply(requests.getJSONObject(i)));
        }
        return answers;
    }

    static long crc32(ByteBuffer bytes) {
        CRC32 crc = new CRC32();
        crc.update(bytes.duplicate());
        return crc.getValue();
    }

    static String hostText(SocketAddress host) {
        InetSocketAddress internet = (InetSocketAddress) host;
        String address = internet.getAddress().getHostAddress();
        return (address.contains(":") ? "[" + address + "]" : address) + ":" + internet.getPort();
    }

    /** The address is written in figures, so no name is looked up. */
    static InetSocketAddress host(String text) throws UnknownHostException {
        int colon = text.lastIndexOf(':');
        String address = text.substring(0, colon).replaceAll("[\\[\\]]", "");
        return new InetSocketAddress(InetAddress.getByName(address), Integer.parseInt(text.substring(colon + 1)));
    }

    /** A step from a request to its answer. */
    interface Step {
        Object apply(JSONObject request) throws Exception;
    }
}

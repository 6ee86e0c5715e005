package org.rmqcore.interop;

import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.SqlFilter;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;

/** RocketMQ's own SQL92 filter, asked about many messages. */
final class Filters {
    private Filters() {
    }

    /** What an expression is for each map of properties: true, false, null or "throws"; "refused" if it is no expression. */
    static Object ask(JSONObject request) {
        Expression expression;
        try {
            expression = new SqlFilter().compile(request.getString("text"));
        } catch (MQFilterException refused) {
            return "refused";
        }
        JSONArray answers = new JSONArray();
        for (Object item : request.getJSONArray("messages")) {
            Map<String, String> properties = new HashMap<>();
            ((JSONObject) item).forEach((name, value) -> properties.put(name, (String) value));
            answers.add(answer(expression, properties));
        }
        return answers;
    }

    private static Object answer(Expression expression, Map<String, String> properties) {
        try {
            return expression.evaluate(new MessageEvaluationContext(properties));
        } catch (Exception thrown) {
            return "throws";
        }
    }
}

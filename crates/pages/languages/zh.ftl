# Chinese in simplified characters (您). What each message is for is said in en.ftl.

language-name = 简体中文

waiting-title = 您正在排队
waiting-lead = 目前访问人数较多。即使关闭此页面，您的位置也会保留。
standstill-title = 排队已暂停
standstill-lead = 目前暂停放行。您的位置已保留。
near-title = 马上就到您了
near-lead = 请不要走开，很快就轮到您。
turn-title = 轮到您了
turn-lead = 您现在可以进入。
turn-lead-auto = 正在带您进入。
turn-remaining = { $count ->
   *[other] 您的位置还将保留 { $n } 秒。
}
turn-remaining-minutes = { $count ->
   *[other] 您的位置还将保留 { $n } 分钟。
}
arriving-title = 正在加入排队
arriving-lead = 请稍候，正在为您安排位置。
arriving-cookies = 页面没有变化？浏览器需要允许 Cookie，我们才能为您保留位置。
many-arriving-title = 现在有很多人到来
many-arriving-lead = 请稍候：想排队的人数超过了一次能接纳的人数。本页面会自动重试。
cookies-needed-title = 需要 Cookie
cookies-needed-lead = 浏览器没有保存我们的 Cookie，因此无法为您保留位置。请允许此网站使用 Cookie，然后重新查询。
held-title = 您的位置已保留
held-lead = 由于我们这边的故障，排队暂时停止。此页面会自动继续。
held-new-title = 请稍候
held-new-lead = 目前无法连接排队系统。此页面会自动重试。
gone-title = 您已过号
gone-lead = 进入时间已过，或者您已离开排队。您可以到队尾重新排队。
left-title = 您已离开排队
left-lead = 您的位置已让给下一位。您可以随时回来，从队尾重新排队。
moved-title = 您的位置已转移
moved-lead = 您已将位置转移到其他设备或浏览器，请在那里继续。
closed-title = 已关闭
closed-lead = 现已停止放行，也不再接受新的排队。
away-title = 暂时无法进入
away-lead = 本网站目前不开放进入，请稍后再来。
limited-title = 请求过多
limited-lead = 您的设备或网络发出的请求超过了本网站的限制。请稍等片刻再继续。
outside-title = 您尚未进入
outside-lead = 请打开网站开始排队。
not-done-title = 操作未执行
not-done-lead = 您尚未进入，因此没有向网站发送任何内容。请打开网站排队，进入后再试一次。
unknown-site-title = 未知网站
unknown-site-lead = 这里没有使用此名称的网站。
failed-title = 网站没有响应
failed-lead = 这不是您的问题，请稍后再试。
refused-title = 操作未成功
refused-lead = 请返回后重试。
inside-title = 您已进入
inside-lead = 您可以关闭此页面。
handoff-title = 您已进入
handoff-lead = 正在为您转到网站。
confirm-title = 请确认
confirm-lead = 您已进入。网站要求您在继续之前确认。
elsewhere-title = 您的位置现在在此设备上
elsewhere-lead = 请在此设备上打开网站并登录。您的排队位置会保留。
for-site = 随后将前往 { $site }。

people-ahead = 您前面的人数
people-ahead-of-you = { $count ->
    [0] 下一位就是您
   *[other] 您前面还有 { $n } 人
}
your-number = 您的排队号码
estimated-wait = 预计等待时间
wait-unknown = 暂时未知
wait-less-than-a-minute = 不到 1 分钟
wait-minutes = { $count ->
   *[other] 约 { $n } 分钟
}
wait-hours = { $count ->
   *[other] 约 { $n } 小时
}
progress-since-joining = 自您排队以来的进度
updated-at = 更新于 { $time }
connection-lost = 网络连接已断开。您的位置已保留，此页面会自动重试。
what-happens = 轮到您时，此页面会自动让您进入。
what-happens-button = 轮到您时，这里会出现一个按钮，您的位置将保留一段时间。
keep-open = 快轮到您时，请不要关闭此页面：名额会分配给当时在线的人。
keep-cookies = 您的位置保存在此浏览器中，请不要清除 Cookie。
refresh-by-itself = { $count ->
   *[other] 此页面每 { $n } 秒自动刷新一次。
}
notice-from-operator = 通知

cues = 轮到您时
cue-sound = 播放提示音
cue-notification = 显示通知
cue-notification-blocked = 此浏览器已屏蔽通知

enter-button = 立即进入
continue-button = 继续
ask-again = 立即查询
join-button = 重新排队
home-button = 返回网站
leave-button = 离开排队
leave-question = 要放弃您的位置吗？位置将让给下一位，且无法恢复。
leave-confirm = 是的，离开排队
move-button = 在其他设备上继续
move-title = 将您的位置转移到其他设备
move-lead = 请在另一台设备上打开此链接。您的位置将转移到那里，此页面随即失效。
move-qr-text = 链接的二维码
move-expires = { $count ->
   *[other] 链接在 { $n } 分钟内有效，仅可使用一次。
}
move-copy = 复制链接
move-copied = 已复制
move-close = 关闭
take-title = 在这里继续排队
take-lead = 您的排队位置将转移到此浏览器，另一台设备上的位置随即失效。
take-instead = 此浏览器目前保留的位置将被放弃。
take-button = 将我的位置转移到这里
take-failed-title = 此链接已失效
take-failed-lead = 链接已被使用或已过期。请在保留您位置的设备上重新生成。
